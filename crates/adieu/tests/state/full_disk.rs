//! A disk that is full, and a directory that cannot be written to: the old state is intact, and the error says why.
//!
//! A small file system in memory stands in for the disk, mounted where only this test sees it.

use std::path::Path;
use std::process::{Command, Stdio};

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};

use crate::conformance::cursor;

/// Set in the process that has the mount.
const INSIDE: &str = "ADIEU_TEST_FULL_DISK";

/// Runs this test again inside a mount namespace of its own, where `prepare` has been run as a shell command
/// with the directory as `$1`. Says why not if that is not allowed here.
fn inside(test: &str, prepare: &str) -> Result<(), BoxError> {
    let folder = tempfile::TempDir::new()?;
    let unshare = |command: &str| {
        let mut unshare = Command::new("unshare");
        unshare
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-ec",
                command,
                "sh",
            ])
            .arg(folder.path())
            .arg(std::env::current_exe().unwrap_or_default())
            .stdin(Stdio::null());
        unshare
    };
    let allowed = unshare(&format!("{prepare}; true")).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        fixture_skip::not_possible("no mount namespace can be made");
        return Ok(());
    }
    let run = format!("{prepare}; exec \"$2\" --exact {test} --nocapture");
    let output = unshare(&run).env(INSIDE, folder.path()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    Ok(())
}

#[test]
fn a_full_disk_loses_nothing() -> Result<(), BoxError> {
    match std::env::var_os(INSIDE) {
        None => inside(
            "full_disk::a_full_disk_loses_nothing",
            "mount -t tmpfs -o size=64k none \"$1\"",
        ),
        Some(folder) => block_on(on_a_full_disk(Path::new(&folder))),
    }
}

async fn on_a_full_disk(folder: &Path) -> Result<(), BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let state = store.state("importer");
    let version = state.save(&cursor(1)).await?;
    let mut ballast = vec![0_u8; 1 << 20];
    while std::fs::write(folder.join("ballast"), &ballast).is_err() {
        ballast.truncate(ballast.len() / 2);
    }
    for (number, size) in (0..).zip(std::iter::repeat_n(4096, 32)) {
        let _ = std::fs::write(folder.join(format!("ballast-{number}")), vec![0_u8; size]);
    }
    let error = state.save(&cursor(2)).await.expect_err("the disk is full");
    let said = error.to_string();
    assert!(
        said.contains("no space is left; what was saved before is intact"),
        "{said}"
    );
    let found = state.load().await?.expect("the old state");
    assert_eq!((found.version, found.value), (version, cursor(1)));
    assert!(
        !folder.join("importer.new").exists(),
        "nothing half-written stays"
    );
    // Once there is room, it goes on.
    std::fs::remove_file(folder.join("ballast"))?;
    state.compare_and_swap(version, &cursor(3)).await?;
    assert_eq!(
        state.load().await?.map(|found| found.value),
        Some(cursor(3))
    );
    Ok(())
}

#[test]
fn a_folder_that_becomes_read_only_loses_nothing() -> Result<(), BoxError> {
    match std::env::var_os(INSIDE) {
        None => inside(
            "full_disk::a_folder_that_becomes_read_only_loses_nothing",
            "mount -t tmpfs -o size=64k none \"$1\"",
        ),
        Some(folder) => block_on(on_a_read_only_folder(Path::new(&folder))),
    }
}

async fn on_a_read_only_folder(folder: &Path) -> Result<(), BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let state = store.state("importer");
    state.save(&cursor(1)).await?;
    store.close().await?;
    drop((state, store));
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(folder)
        .status()?;
    assert!(remounted.success());
    let before = std::fs::read(folder.join("importer.json"))?;
    let error = FileStore::open(folder)
        .await
        .expect_err("it is read-only")
        .to_string();
    assert!(error.contains("cannot write to state directory"), "{error}");
    assert!(
        error.contains("read-only file system; give another directory"),
        "{error}"
    );
    assert_eq!(std::fs::read(folder.join("importer.json"))?, before);
    Ok(())
}

fn block_on(test: impl Future<Output = Result<(), BoxError>>) -> Result<(), BoxError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(test)
}
