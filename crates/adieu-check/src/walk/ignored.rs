//! Ignore files that are not plain files.
//!
//! The walker opens `.gitignore` and `.ignore` by name. A link to a device in their place would be
//! read without end, and a pipe would hold the walk. git follows no such link either.

use std::fs;
use std::path::{Path, PathBuf};

use crate::finding::Notice;

const NAMES: [&str; 2] = [".gitignore", ".ignore"];

/// A named directory, resolved, whose ignore files may be links to files inside of it.
#[derive(Debug, Clone)]
pub(super) struct Root {
    real: PathBuf,
}

impl Root {
    pub(super) fn new(root: &Path) -> Root {
        Root {
            real: fs::canonicalize(root).unwrap_or_default(),
        }
    }

    /// What is wrong with the ignore files of a directory below, which is then left out.
    pub(super) fn below(&self, folder: &Path) -> Option<Notice> {
        let name = NAMES
            .into_iter()
            .find(|name| self.refuses(&folder.join(name)))?;
        Some(Notice {
            path: super::shown(folder).into(),
            message: format!(
                "was not checked: its `{name}` is a device or a link out of what is checked; replace it by a file, or \
                 name the directory"
            ),
        })
    }

    /// What is wrong with the ignore files of the directory itself and of those above it. It was asked
    /// for, so it is checked without any.
    pub(super) fn own(&self) -> Option<Notice> {
        let own = NAMES.map(|name| self.real.join(name));
        let refused = own.into_iter().find(|path| self.refuses(path));
        let odd = refused.or_else(|| {
            let above = self.real.ancestors().skip(1);
            above
                .flat_map(|folder| NAMES.map(|name| folder.join(name)))
                .find(|path| is_special(path))
        })?;
        Some(Notice {
            path: super::shown(&odd).into(),
            message: "is a device or a link out of what is checked: no ignore file is respected"
                .to_owned(),
        })
    }

    fn refuses(&self, path: &Path) -> bool {
        let Ok(found) = fs::symlink_metadata(path) else {
            return false;
        };
        if found.is_symlink() {
            let target = fs::canonicalize(path);
            return target.is_ok_and(|it| !it.starts_with(&self.real) || is_special(&it));
        }
        !found.is_file() && !found.is_dir()
    }
}

/// Above a named directory stand the user's own files, linked or not.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}
