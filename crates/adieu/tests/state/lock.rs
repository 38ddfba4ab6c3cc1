//! The lock of a state directory: whose it is, what it may be, and that a directory has one owner whatever happens to the file.

use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::time::Duration;

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};
use tempfile::TempDir;

use crate::conformance::{Cursor, cursor};

const LONG: Duration = Duration::from_secs(600);

/// Opens a directory whose `lock` is something else; gives the error with its cause.
async fn refused(folder: &Path) -> String {
    let opened = FileStore::open(folder).await;
    let error = opened.expect_err("that is not a lock of ours");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

#[tokio::test]
async fn a_link_is_not_followed() -> Result<(), BoxError> {
    let (folder, other) = (TempDir::new()?, TempDir::new()?);
    let victim = other.path().join("victim");
    fs::write(&victim, "1234")?;
    symlink(&victim, folder.path().join("lock"))?;
    let error = refused(folder.path()).await;
    assert!(error.contains("it is a symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&victim)?, "1234");
    // Nor is one that leads nowhere: there is nothing where it leads afterwards either.
    fs::remove_file(&victim)?;
    refused(folder.path()).await;
    assert!(!victim.exists());
    Ok(())
}

#[tokio::test]
async fn a_file_with_a_second_name_is_left_as_it_is() -> Result<(), BoxError> {
    let (folder, other) = (TempDir::new()?, TempDir::new()?);
    let victim = other.path().join("victim");
    fs::write(&victim, "1234")?;
    fs::hard_link(&victim, folder.path().join("lock"))?;
    let error = refused(folder.path()).await;
    assert!(error.contains("has a second name"), "{error}");
    assert_eq!(fs::read_to_string(&victim)?, "1234");
    Ok(())
}

#[tokio::test]
async fn a_file_of_another_program_is_left_as_it_is() -> Result<(), BoxError> {
    for text in ["host = \"db\"\n", &"1".repeat(21)] {
        let folder = TempDir::new()?;
        let file = folder.path().join("lock");
        fs::write(&file, text)?;
        let error = refused(folder.path()).await;
        assert!(error.contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(&file)?, text);
    }
    Ok(())
}

#[tokio::test]
async fn a_pipe_or_a_folder_is_no_lock() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let pipe = folder.path().join("lock");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::from_raw_mode(0o600),
    )?;
    let error = refused(folder.path()).await;
    assert!(error.contains("it is not a regular file"), "{error}");
    fs::remove_file(&pipe)?;
    fs::create_dir(&pipe)?;
    refused(folder.path()).await;
    Ok(())
}

#[tokio::test]
async fn a_file_of_another_user_is_left_as_it_is() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let file = folder.path().join("lock");
    fs::write(&file, "1234")?;
    if chown(&file, Some(54_321), None).is_err() {
        fixture_skip::not_possible("only root can give a file to another user");
        return Ok(());
    }
    let error = refused(folder.path()).await;
    assert!(error.contains("belongs to another user"), "{error}");
    assert_eq!(fs::read_to_string(&file)?, "1234");
    // Root may look after the directory of another user, with that user's lock in it.
    chown(folder.path(), Some(54_321), None)?;
    FileStore::open(folder.path()).await?;
    Ok(())
}

#[tokio::test]
async fn a_lock_that_was_deleted_still_holds() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let first = StoreHandle::new(FileStore::open(folder.path()).await?);
    first.state("importer").save(&cursor(1)).await?;
    fs::remove_file(folder.path().join("lock"))?;
    let second = FileStore::open(folder.path()).await;
    let error = second.expect_err("it is taken").to_string();
    assert!(error.contains("is in use by"), "{error}");
    // Nor has it who waits for it.
    let waiting = StoreHandle::new(FileStore::open_when_free(folder.path(), LONG).await?);
    let state = waiting.state::<Cursor>("importer");
    let waiting = tokio::spawn(async move { state.load().await });
    fs::remove_file(folder.path().join("lock"))?;
    first.state("importer").save(&cursor(2)).await?;
    assert!(!waiting.is_finished());
    first.close().await?;
    let found = waiting.await??.expect("it was saved");
    assert_eq!(found.value, cursor(2));
    Ok(())
}

/// Waits until a thread is blocked on a lock of this file.
async fn is_waited_for(file: &File) -> Result<(), BoxError> {
    use std::os::unix::fs::MetadataExt;
    let number = format!(":{} ", file.metadata()?.ino());
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let locks = fs::read_to_string("/proc/locks")?;
        let waits = |line: &str| line.contains("-> FLOCK") && line.contains(&number);
        if locks.lines().any(waits) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    Err("no thread waits for that file".into())
}

/// The directory's own lock is not taken here, as by an earlier version, or where directories have none: the file was deleted
/// while it was waited for, and a third process has locked a new one.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_lost_its_name_is_not_the_lock() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let name = folder.path().join("lock");
    let first = File::create_new(&name)?;
    first.lock()?;
    let waiting = StoreHandle::new(FileStore::open_when_free(folder.path(), LONG).await?);
    let state = waiting.state::<Cursor>("importer");
    let waiting = tokio::spawn(async move { state.save(&cursor(1)).await });
    is_waited_for(&first).await?;
    fs::remove_file(&name)?;
    let third = File::create_new(&name)?;
    third.lock()?;
    drop(first);
    // It has the file without a name by now, and has to wait for the other one.
    is_waited_for(&third).await?;
    assert!(!waiting.is_finished());
    drop(third);
    waiting.await??;
    Ok(())
}
