//! Repairs: only those that cannot change what a correct program does.

use std::fs;
use std::io;
use std::path::Path;

/// Replace one byte range of a file by a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// First byte to replace.
    pub start: usize,
    /// First byte to keep again.
    pub end: usize,
    /// What stands there instead.
    pub text: String,
}

/// Applies what does not overlap, from the end to the start so that offsets stay true. Returns the
/// new text and how many fixes went in; an overlapping one waits for the next run.
#[must_use]
pub fn apply(source: &str, fixes: &[Fix]) -> (String, usize) {
    let mut ordered: Vec<&Fix> = fixes.iter().collect();
    ordered.sort_by_key(|fix| (fix.start, fix.end));
    ordered.dedup();
    let mut out = String::with_capacity(source.len());
    let mut kept_to = 0;
    let mut applied = 0;
    for fix in ordered {
        let fits = fix.start >= kept_to
            && fix.start <= fix.end
            && source.is_char_boundary(fix.start)
            && source.is_char_boundary(fix.end);
        if !fits {
            continue;
        }
        out.push_str(&source[kept_to..fix.start]);
        out.push_str(&fix.text);
        kept_to = fix.end;
        applied += 1;
    }
    out.push_str(&source[kept_to..]);
    (out, applied)
}

/// Applies fixes to a file through a temporary sibling, so that an interrupted run leaves the old
/// file or the new one and nothing between.
pub fn apply_to_file(path: &Path, fixes: &[Fix]) -> io::Result<usize> {
    let source = fs::read_to_string(path)?;
    // Offsets count from behind a byte order mark, as the check read the file.
    let (mark, body) = match source.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", source.as_str()),
    };
    let (text, applied) = apply(body, fixes);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".adieu-fix");
    let temporary = path.with_file_name(name);
    fs::write(&temporary, format!("{mark}{text}"))?;
    fs::set_permissions(&temporary, fs::metadata(path)?.permissions())?;
    fs::rename(&temporary, path)?;
    Ok(applied)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Fix, apply, apply_to_file};

    fn fix(start: usize, end: usize, text: &str) -> Fix {
        Fix {
            start,
            end,
            text: text.into(),
        }
    }

    #[test]
    fn fixes_go_in_whatever_their_order() {
        assert_eq!(
            apply("abcdef", &[fix(4, 5, "E"), fix(0, 1, "A")]),
            ("AbcdEf".into(), 2)
        );
    }

    #[test]
    fn the_second_of_two_overlapping_fixes_waits() {
        assert_eq!(
            apply("abcdef", &[fix(0, 3, "x"), fix(2, 4, "y")]),
            ("xdef".into(), 1)
        );
    }

    #[test]
    fn a_range_outside_the_text_is_left_alone() {
        assert_eq!(apply("ab", &[fix(1, 9, "x")]), ("ab".into(), 0));
    }

    #[test]
    fn a_file_keeps_its_mark_and_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("start.sh");
        fs::write(&path, "\u{feff}python app.py\n").expect("a file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("a mode");
        }
        let applied = apply_to_file(&path, &[fix(0, 0, "exec ")]).expect("a repair");
        assert_eq!(applied, 1);
        let text = fs::read_to_string(&path).expect("a file");
        assert_eq!(text, "\u{feff}exec python app.py\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o750);
        }
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
