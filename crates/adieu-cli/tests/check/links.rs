//! Links in a repository that others wrote: nothing outside is read, named or written.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{BLOCKS, Test};

const SCRIPT: &str = "#!/bin/sh\necho from the repository\npython -m shop\n";
const IMAGE: &str = "FROM python:3.13\nENTRYPOINT [\"./entrypoint.sh\"]\n";

/// A repository in `repo`, and files of the user beside it in `beside`.
fn repository() -> Test {
    Test::new()
        .file("beside/.bashrc", "alias ll='ls -l'\n")
        .file("beside/app.py", BLOCKS)
        .file("repo/Dockerfile", IMAGE)
        .file("repo/entrypoint.sh", SCRIPT)
}

fn link(test: &Test, target: &str, name: &str) {
    symlink(target, test.path().join(name)).expect("a link");
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

#[test]
fn a_repair_does_not_write_through_a_link_with_the_name_of_its_temporary_file() {
    let test = repository();
    link(&test, "../beside/.bashrc", "repo/entrypoint.sh.adieu-fix");
    let ran = test.run_in("repo", &["--fix"]);
    assert_eq!(test.read("beside/.bashrc"), "alias ll='ls -l'\n");
    assert_eq!(ran.err(), "note: 1 finding repaired\n");
    assert!(
        test.read("repo/entrypoint.sh")
            .ends_with("\nexec python -m shop\n")
    );
    let names = fs::read_dir(test.path().join("repo")).expect("a directory");
    assert_eq!(names.count(), 3, "nothing is left beside the files");
}

#[test]
fn a_folder_behind_a_link_is_neither_read_nor_named_nor_repaired() {
    for arguments in [
        &[][..],
        &["--fix", "--unsafe-fixes"],
        &["--diff", "--unsafe-fixes"],
        &["--format", "json"],
    ] {
        let test = repository();
        fs::remove_file(test.path().join("repo/entrypoint.sh")).expect("removed");
        link(&test, "../beside", "repo/sub");
        link(&test, "..", "repo/up");
        let ran = test.run_in("repo", arguments);
        assert_eq!(ran.code(), 0, "{}{}", ran.out(), ran.err());
        assert!(!ran.out().contains("ADP101"), "{}", ran.out());
        assert!(!format!("{}{}", ran.out(), ran.err()).contains("app.py"));
        for name in ["sub", "up"] {
            let said = format!("note: {name}: is a symbolic link out of what is checked");
            assert!(ran.err().contains(&said), "{}", ran.err());
        }
        assert_eq!(test.read("beside/app.py"), BLOCKS);
    }
}

#[test]
fn a_file_behind_a_link_is_neither_read_nor_replaced() {
    let test = repository();
    link(&test, "../beside/app.py", "repo/app.py");
    let ran = test.run_in("repo", &["--fix", "--unsafe-fixes"]);
    assert!(!ran.out().contains("app.py"), "{}", ran.out());
    assert!(
        ran.err()
            .contains("note: app.py: is a symbolic link out of"),
        "{}",
        ran.err()
    );
    assert_eq!(test.read("beside/app.py"), BLOCKS);
    assert!(is_link(&test.path().join("repo/app.py")));
}

#[test]
fn what_a_link_leads_to_inside_is_checked_once_under_its_own_name() {
    let test = Test::new().file("src/app.py", BLOCKS);
    link(&test, "src", "again");
    link(&test, "src/app.py", "main.py");
    link(&test, "..", "src/loop");
    let ran = test.run(&[]);
    let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("src/app.py:8:5: ADP101"), "{lines:?}");
    assert!(!ran.err().contains("link"), "{}", ran.err());
}

#[test]
fn a_link_that_is_named_is_followed_and_what_is_behind_it_is_not_replaced() {
    let test = repository();
    link(&test, "beside", "linked");
    link(&test, "beside/app.py", "file.py");
    assert!(
        test.run(&["linked"])
            .out()
            .contains("linked/app.py:8:5: ADP101")
    );
    let ran = test.run(&["--fix", "--unsafe-fixes", "file.py"]);
    assert!(ran.out().contains("file.py:9:5: ADP101"), "{}", ran.out());
    assert!(
        ran.err()
            .contains("note: file.py: was not repaired: it is a symbolic link"),
        "{}",
        ran.err()
    );
    assert!(is_link(&test.path().join("file.py")));
    assert_eq!(test.read("beside/app.py"), BLOCKS);
    // A directory that is named is the user's own choice, linked or not.
    let ran = test.run(&["--fix", "--unsafe-fixes", "linked"]);
    assert!(
        ran.err().contains("note: 1 finding repaired"),
        "{}",
        ran.err()
    );
    assert!(
        test.read("beside/app.py")
            .contains("await asyncio.sleep(2)")
    );
}

#[test]
fn a_repair_keeps_the_mode() {
    let test = repository();
    let script = test.path().join("repo/entrypoint.sh");
    for mode in [0o755, 0o700, 0o444] {
        let test = &test;
        fs::write(&script, SCRIPT)
            .or_else(|_| {
                fs::remove_file(&script)?;
                fs::write(&script, SCRIPT)
            })
            .expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(mode)).expect("a mode");
        test.run_in("repo", &["--fix"]);
        let kept = fs::metadata(&script).expect("a file").permissions().mode();
        assert_eq!(kept & 0o7777, mode);
        assert!(test.read("repo/entrypoint.sh").contains("exec python"));
    }
}

#[test]
fn a_baseline_is_not_written_or_read_through_a_link() {
    let test = repository();
    link(&test, "../beside/.bashrc", "repo/adieu-baseline.json");
    let ran = test.run_in("repo", &["--write-baseline"]);
    assert_eq!(ran.code(), 2);
    insta::assert_snapshot!(ran.err(), @"error: adieu-baseline.json: cannot be written: it is a symbolic link, or below one, and links are not followed; remove it or give another with `--baseline FILE`");
    let ran = test.run_in("repo", &["--baseline", "adieu-baseline.json"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.err().contains("symbolic link"), "{}", ran.err());
    assert_eq!(test.read("beside/.bashrc"), "alias ll='ls -l'\n");
    assert!(is_link(&test.path().join("repo/adieu-baseline.json")));
}

#[test]
fn the_settings_of_a_repository_name_no_baseline_outside_of_it() {
    let other = repository();
    let absolute = other.path().join("beside/.bashrc");
    for path in [
        "../beside/.bashrc",
        "sub/../../beside/.bashrc",
        "behind/.bashrc",
        absolute.to_str().expect("a path"),
    ] {
        let test = repository().file("repo/adieu.toml", &format!("baseline = \"{path}\"\n"));
        link(&test, "../beside", "repo/behind");
        let ran = test.run_in("repo", &["--write-baseline"]);
        assert_eq!(ran.code(), 2, "{path}: {}", ran.err());
        assert!(
            ran.err().contains("the settings may name a file below their own directory only, give another with `--baseline FILE`"),
            "{path}: {}",
            ran.err()
        );
        let ran = test.run_in("repo", &[]);
        assert_eq!(ran.code(), 2, "{path}: {}", ran.err());
        assert!(
            ran.err().contains("the baseline cannot be read"),
            "{path}: {}",
            ran.err()
        );
        assert_eq!(test.read("beside/.bashrc"), "alias ll='ls -l'\n");
        // What the user names is the user's choice.
        let ran = test.run_in(
            "repo",
            &["--write-baseline", "--baseline", "../beside/known.json"],
        );
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert!(test.read("beside/known.json").contains("ADD102"));
    }
    assert_eq!(other.read("beside/.bashrc"), "alias ll='ls -l'\n");
}

#[test]
fn settings_behind_a_link_are_not_quoted() {
    let test = repository();
    link(&test, "../beside/.bashrc", "repo/adieu.toml");
    let ran = test.run_in("repo", &[]);
    assert_eq!(ran.code(), 2);
    assert!(!ran.err().contains("alias"), "{}", ran.err());
    assert!(
        ran.err().contains(
            "is a symbolic link and was not followed; name what it leads to with `--config FILE`"
        ),
        "{}",
        ran.err()
    );
    let test = repository().file("beside/pyproject.toml", "[tool.adieu]\nalias = 1\n");
    link(&test, "../beside/pyproject.toml", "repo/pyproject.toml");
    let ran = test.run_in("repo", &[]);
    assert_eq!(ran.code(), 1, "{}", ran.err());
    assert!(!ran.err().contains("alias"), "{}", ran.err());
}

/// Under a limit on its memory, so that a read without end ends this child and not the machine.
#[test]
fn an_ignore_file_that_is_a_device_is_not_read() {
    let test = repository();
    link(&test, "/dev/zero", "repo/.gitignore");
    let nested = test.file("repo/deep/app.py", BLOCKS);
    link(&nested, "/dev/zero", "repo/deep/.ignore");
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"])
        .args(["timeout", "60", env!("CARGO_BIN_EXE_adieu"), "check"])
        .current_dir(nested.path().join("repo"))
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(
            ".gitignore: is a device or a link out of what is checked: no ignore file is respected"
        ),
        "{said}"
    );
    assert!(
        said.contains("note: deep: was not checked: its `.ignore` is a device or a link out of"),
        "{said}"
    );
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(found.contains("entrypoint.sh:3:1: ADD102"), "{found}");
}

#[test]
fn an_ignore_file_that_is_a_link_inside_or_above_is_respected() {
    let test = Test::new()
        .file("repo/ignored.py", BLOCKS)
        .file("repo/shared/patterns", "ignored.py\n")
        .file("patterns", "above.py\n")
        .file("repo/above.py", BLOCKS);
    link(&test, "shared/patterns", "repo/.gitignore");
    link(&test, "patterns", ".gitignore");
    let ran = test.run_in("repo", &[]);
    assert_eq!(
        (ran.code(), ran.out(), ran.err()),
        (0, String::new(), String::new())
    );
}

/// One side swaps a directory for a link and back as fast as it can, the other repairs: nothing
/// outside may change.
#[test]
fn a_folder_that_is_swapped_for_a_link_meanwhile_does_not_lead_outside() {
    let test = Test::new()
        .file("beside/app.py", BLOCKS)
        .file("repo/sub/app.py", BLOCKS);
    let repo = test.path().join("repo");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (sub, kept) = (repo.join("sub"), repo.join("kept.d"));
            let until = std::time::Instant::now() + Duration::from_secs(60);
            while !done.load(std::sync::atomic::Ordering::Relaxed)
                && std::time::Instant::now() < until
            {
                let swapped = fs::rename(&sub, &kept).and_then(|()| symlink("../beside", &sub));
                swapped.expect("swapped");
                std::thread::yield_now();
                let back = fs::remove_file(&sub).and_then(|()| fs::rename(&kept, &sub));
                back.expect("swapped back");
                std::thread::yield_now();
            }
        });
        for _ in 0..20 {
            test.run_in("repo", &["--fix", "--unsafe-fixes"]);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(test.read("beside/app.py"), BLOCKS);
    assert_eq!(
        fs::read_dir(test.path().join("beside"))
            .expect("a directory")
            .count(),
        1
    );
}
