//! What counts as test code. A test may block as it likes: its loop serves nobody.

/// Whether a path from the checked root names test code.
pub(crate) fn is_test_file(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file
        .strip_suffix(".py")
        .or_else(|| file.strip_suffix(".rs"))
        .unwrap_or(file);
    stem.starts_with("test_")
        || stem.ends_with("_test")
        || matches!(stem, "conftest" | "tests" | "noxfile" | "setup")
        || folders
            .split('/')
            .any(|folder| matches!(folder, "tests" | "test" | "testing" | "benches"))
}

#[cfg(test)]
mod tests {
    use super::is_test_file;

    #[test]
    fn tests_are_known_by_folder_and_by_name() {
        for path in [
            "tests/app.py",
            "a/test/b.py",
            "test_app.py",
            "app_test.py",
            "x/conftest.py",
        ] {
            assert!(is_test_file(path), "{path}");
        }
        for path in ["app.py", "latest/app.py", "contest.py", "attestation.py"] {
            assert!(!is_test_file(path), "{path}");
        }
    }
}
