//! Reading one file: size, encoding, lines.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::finding::Place;
use crate::tree;
use crate::walk::SourceFile;

/// Larger files are generated; reading one would cost more than all others together.
pub const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Io(io::Error),
    TooLarge(u64),
    NotUtf8(Place),
}

impl Unreadable {
    pub(crate) fn place(&self) -> Place {
        match self {
            Unreadable::NotUtf8(place) => *place,
            Unreadable::Io(_) | Unreadable::TooLarge(_) => Place::TOP,
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Unreadable::Io(error) => format!("cannot be read: {error}"),
            Unreadable::TooLarge(size) => format!(
                "is {} MB large and was not checked (the limit is {} MB); exclude it if it is generated",
                size / (1024 * 1024),
                LARGEST_FILE / (1024 * 1024)
            ),
            Unreadable::NotUtf8(_) => "is not UTF-8 from here on and was not checked".to_owned(),
        }
    }
}

/// Reads a file as text, or says why not. A byte order mark is dropped. A link is not followed.
pub(crate) fn read(path: &Path) -> Result<String, Unreadable> {
    let file = tree::open(path).map_err(Unreadable::Io)?;
    let size = file.metadata().map_err(Unreadable::Io)?.len();
    if size > LARGEST_FILE {
        return Err(Unreadable::TooLarge(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    // A device or a growing log has no honest size: never take more than the limit.
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(Unreadable::Io)?;
    decode(bytes)
}

/// The text of a file's bytes, as [`read`] takes them.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, Unreadable> {
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Unreadable::TooLarge(bytes.len() as u64));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let prefix = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        Unreadable::NotUtf8(Lines::new(&prefix).place(&prefix, prefix.len()))
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Where the texts come from: the disk, or what stands in for a file before it is written.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    held: FxHashMap<Arc<str>, Vec<u8>>,
}

impl Texts {
    /// Takes these bytes for the file of this shown path.
    pub(crate) fn hold(&mut self, shown: &Arc<str>, bytes: Vec<u8>) {
        self.held.insert(Arc::clone(shown), bytes);
    }

    /// The text of a file.
    pub(crate) fn read(&self, file: &SourceFile) -> Result<String, Unreadable> {
        match self.held.get(&file.shown) {
            Some(bytes) => decode(bytes.clone()),
            None => read(&file.path),
        }
    }
}

/// Where the lines of a text start.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn new(text: &str) -> Lines {
        let mut starts = Vec::with_capacity(text.len() / 32 + 1);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at as u32 + 1));
        Lines { starts }
    }

    pub(crate) fn place(&self, text: &str, offset: usize) -> Place {
        let offset = offset.min(text.len());
        let line = self
            .starts
            .partition_point(|start| *start as usize <= offset)
            .max(1);
        let start = self.starts[line - 1] as usize;
        let column = text.get(start..offset).map_or(offset - start, |prefix| {
            if prefix.is_ascii() {
                prefix.len()
            } else {
                prefix.chars().count()
            }
        });
        Place {
            line: line as u32,
            column: column as u32 + 1,
        }
    }

    /// The byte range of a line, counted from one, without its end.
    pub(crate) fn range(&self, text: &str, line: u32) -> std::ops::Range<usize> {
        let index = (line.max(1) as usize - 1).min(self.starts.len() - 1);
        let start = self.starts[index] as usize;
        let end = self
            .starts
            .get(index + 1)
            .map_or(text.len(), |next| *next as usize - 1);
        start..end.max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::finding::Place;

    #[test]
    fn columns_count_characters() {
        let text = "a\nпривет = x\n";
        let at = text.find('x').unwrap_or(0);
        assert_eq!(
            Lines::new(text).place(text, at),
            Place {
                line: 2,
                column: 10
            }
        );
    }
}
