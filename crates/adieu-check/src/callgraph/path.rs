//! The words of the path language, which [the directory's table](super) describes, in one place.

/// A base class or value that cannot be followed.
pub(crate) const UNKNOWN: &str = "@?";

/// Not a method of any library: a `with` block or a guard that holds the lock over an await.
const HOLD: &str = "__hold__";

/// Whether a path leads into the project.
pub(crate) fn is_internal(path: &str) -> bool {
    path.starts_with('@')
}

/// The path of holding this lock over an await.
pub(crate) fn hold(lock: &str) -> String {
    format!("{lock}.{HOLD}")
}

/// The lock of a path that [`hold`] made, however its segments are joined.
pub(crate) fn held(path: &str) -> Option<&str> {
    let lock = path.strip_suffix(HOLD)?;
    lock.strip_suffix("::").or_else(|| lock.strip_suffix('.'))
}

#[cfg(test)]
mod tests {
    use super::{held, hold, is_internal};

    #[test]
    fn what_is_held_is_the_lock() {
        assert_eq!(held(&hold("threading.Lock()")), Some("threading.Lock()"));
        assert_eq!(held("std::sync::Mutex::__hold__"), Some("std::sync::Mutex"));
        assert_eq!(held("threading.Lock().acquire"), None);
    }

    #[test]
    fn a_path_of_the_project_begins_with_its_module() {
        assert!(is_internal("@7.load") && !is_internal("time.sleep"));
    }
}
