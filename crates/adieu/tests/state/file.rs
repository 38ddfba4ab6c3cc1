//! The file store: what is in the directory, and what becomes of damage.

use std::fs;
use std::path::Path;

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};
use tempfile::TempDir;

use crate::conformance::{self, Cursor, cursor};

#[tokio::test(flavor = "multi_thread")]
async fn it_does_what_every_store_does() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    conformance::holds(async || Ok(FileStore::open(folder.path().join("a/b")).await?)).await
}

/// Saves so many cursors, one after the other, and closes.
async fn saved(folder: &Path, times: u64) -> Result<(), BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let state = store.state("importer");
    for number in 1..=times {
        state.save(&cursor(number)).await?;
    }
    Ok(store.close().await?)
}

async fn loaded(folder: &Path) -> Result<Option<Cursor>, BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let found = store.state("importer").load().await;
    store.close().await?;
    Ok(found?.map(|found| found.value))
}

fn names(folder: &Path) -> Result<Vec<String>, BoxError> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder)? {
        names.push(file?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[tokio::test]
async fn the_file_is_for_people_too() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    saved(folder.path(), 2).await?;
    let text = fs::read_to_string(folder.path().join("importer.json"))?;
    insta::assert_snapshot!(text, @r#"
    {
      "adieu": 1,
      "key": "importer",
      "version": 2,
      "format": 1,
      "checksum": "crc32:bebee97c",
      "value": {"last_id":2,"note":""}
    }
    "#);
    assert_eq!(
        names(folder.path())?,
        ["importer.json", "importer.previous.json", "lock"]
    );
    let before: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("importer.previous.json"))?)?;
    assert_eq!(before["value"]["last_id"], 1);
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_user_may_read_it() -> Result<(), BoxError> {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new()?;
    let folder = parent.path().join("state");
    saved(&folder, 3).await?;
    let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o777);
    assert_eq!(mode(&folder)?, 0o700);
    for name in names(&folder)? {
        assert_eq!(mode(&folder.join(&name))?, 0o600, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_the_one_before_is_used() -> Result<(), BoxError> {
    let damages: [&[u8]; 5] = [b"", b"\0\0\0\0", b"{\"adieu\":1", b"\xff\xfe", b"null"];
    for damage in damages {
        let folder = TempDir::new()?;
        saved(folder.path(), 5).await?;
        let file = folder.path().join("importer.json");
        fs::write(&file, damage)?;
        assert_eq!(loaded(folder.path()).await?, Some(cursor(4)), "{damage:?}");
        assert_eq!(
            fs::read(folder.path().join("importer.corrupt-1.json"))?,
            damage
        );
        // And on it goes from there, with the earlier one still to fall back on.
        assert_eq!(loaded(folder.path()).await?, Some(cursor(4)));
        saved(folder.path(), 1).await?;
        fs::write(&file, damage)?;
        assert_eq!(loaded(folder.path()).await?, Some(cursor(4)));
        assert!(names(folder.path())?.contains(&"importer.corrupt-2.json".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_digit_is_damage() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    saved(folder.path(), 5).await?;
    let file = folder.path().join("importer.json");
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replace("\"last_id\":5", "\"last_id\":6"))?;
    assert_eq!(loaded(folder.path()).await?, Some(cursor(4)));
    Ok(())
}

#[tokio::test]
async fn without_a_whole_generation_nothing_is_touched() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    saved(folder.path(), 2).await?;
    for name in ["importer.json", "importer.previous.json"] {
        fs::write(folder.path().join(name), "damage")?;
    }
    let before = names(folder.path())?;
    // Every start says so; none of them begins again from nothing.
    for _ in 0..2 {
        let error = loaded(folder.path())
            .await
            .expect_err("there is nothing to use")
            .to_string();
        assert!(error.contains("importer.json is corrupt"), "{error}");
        assert!(
            error.contains("importer.previous.json is corrupt too"),
            "{error}"
        );
        assert!(error.contains("move it away to start afresh"), "{error}");
        assert_eq!(names(folder.path())?, before);
    }
    let store = StoreHandle::new(FileStore::open(folder.path()).await?);
    let blind = store.state("importer").save(&cursor(9)).await;
    assert!(blind.is_err(), "what cannot be read is not overwritten");
    Ok(())
}

#[tokio::test]
async fn a_newer_layout_is_left_alone() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    saved(folder.path(), 2).await?;
    let newer = r#"{"adieu":2,"something":"else"}"#;
    fs::write(folder.path().join("importer.json"), newer)?;
    let error = loaded(folder.path())
        .await
        .expect_err("it is from the future")
        .to_string();
    assert!(
        error.contains("written by a newer version of adieu (layout 2)"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("importer.json"))?,
        newer
    );
    Ok(())
}

#[tokio::test]
async fn what_a_killed_save_leaves_is_no_obstacle() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    saved(folder.path(), 3).await?;
    let file = |name: &str| folder.path().join(name);
    // Killed while writing, and between the link and its rename.
    fs::write(file("importer.new"), "{\"adieu\":1,")?;
    fs::hard_link(file("importer.json"), file("importer.kept"))?;
    assert_eq!(loaded(folder.path()).await?, Some(cursor(3)));
    saved(folder.path(), 1).await?;
    assert_eq!(loaded(folder.path()).await?, Some(cursor(1)));
    // Killed between the two renames: both names are of one file.
    fs::remove_file(file("importer.previous.json"))?;
    fs::hard_link(file("importer.json"), file("importer.previous.json"))?;
    for _ in 0..3 {
        saved(folder.path(), 2).await?;
    }
    assert_eq!(loaded(folder.path()).await?, Some(cursor(2)));
    // Killed between the two renames, where there are no links.
    fs::remove_file(file("importer.json"))?;
    assert_eq!(loaded(folder.path()).await?, Some(cursor(1)));
    Ok(())
}

/// Files are written over, but never while a process reads them: not one who opened it while it was the
/// current one, nor one who has given it another name.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_is_used_again_when_no_process_has_it_open() -> Result<(), BoxError> {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    let folder = TempDir::new()?;
    let file = |name: &str| folder.path().join(name);
    let store = StoreHandle::new(FileStore::open(folder.path()).await?);
    let state = store.state("importer");
    let mut number = 0;
    let mut save = async || {
        number += 1;
        state.save(&cursor(number)).await?;
        Ok::<u64, BoxError>(fs::metadata(file("importer.json"))?.ino())
    };
    let first = [save().await?, save().await?, save().await?];
    let again = [save().await?, save().await?, save().await?];
    // Not every file system lends a file or exchanges names; this one does.
    const EXT4: i64 = 0xEF53;
    if rustix::fs::statfs(folder.path())?.f_type == EXT4 {
        assert_eq!(first, again, "three files take turns");
    }

    let mut reader = fs::File::open(file("importer.json"))?;
    let read = fs::read(file("importer.json"))?;
    let turns = [save().await?, save().await?, save().await?, save().await?];
    assert!(!turns.contains(&reader.metadata()?.ino()), "it is read");
    let mut whole = Vec::new();
    reader.read_to_end(&mut whole)?;
    assert_eq!(whole, read, "as it was when it was opened");

    fs::hard_link(file("importer.json"), file("backup"))?;
    let copied = fs::read(file("backup"))?;
    for _ in 0..4 {
        save().await?;
    }
    assert_eq!(
        fs::read(file("backup"))?,
        copied,
        "a copy is never used again"
    );
    store.close().await?;
    assert!(!file("importer.new").exists(), "tidied up");
    Ok(())
}

/// What a killed process left is, on the disk, perhaps the present file still.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_another_process_left_is_not_written_over() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let file = |name: &str| folder.path().join(name);
    saved(folder.path(), 3).await?;
    fs::rename(file("importer.json"), file("importer.new"))?;
    // A number is given again, a time is not.
    let Ok(born) = fs::metadata(file("importer.new"))?.created() else {
        fixture_skip::not_possible("this file system does not tell when a file was made");
        return Ok(());
    };
    saved(folder.path(), 1).await?;
    assert_ne!(fs::metadata(file("importer.json"))?.created()?, born);
    Ok(())
}

#[tokio::test]
async fn a_folder_has_one_owner() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let first = FileStore::open(folder.path()).await?;
    let error = FileStore::open(folder.path())
        .await
        .expect_err("it is taken");
    assert!(
        error.to_string().contains("in use by this process already"),
        "{error}"
    );
    drop(first);
    FileStore::open(folder.path()).await?;
    Ok(())
}

#[tokio::test]
async fn who_may_wait_has_the_folder_when_it_is_free() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let first = StoreHandle::new(FileStore::open(folder.path()).await?);
    first.state("importer").save(&cursor(1)).await?;
    let long = std::time::Duration::from_secs(600);
    let second = StoreHandle::new(FileStore::open_when_free(folder.path(), long).await?);
    let state = second.state::<Cursor>("importer");
    let mut waiting = tokio::spawn(async move { state.load().await });
    first.state("importer").save(&cursor(2)).await?;
    // It could not have come sooner: the lock is held until here.
    assert!(!waiting.is_finished());
    first.close().await?;
    let found = (&mut waiting).await??.expect("it was saved");
    assert_eq!(found.value, cursor(2));
    second.state("importer").save(&cursor(3)).await?;
    second.close().await?;
    assert_eq!(loaded(folder.path()).await?, Some(cursor(3)));
    Ok(())
}

#[tokio::test]
async fn who_has_waited_in_vain_is_told_who_has_it() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let first = FileStore::open(folder.path()).await?;
    let short = std::time::Duration::from_millis(10);
    let store = FileStore::open_when_free(folder.path(), short).await?;
    let second = StoreHandle::new(store);
    let error = second.state::<Cursor>("importer").load().await;
    let error = error.expect_err("it is taken").to_string();
    assert!(error.contains("in use by this process already"), "{error}");
    // One that is closed while it waits takes nothing any more.
    second.close().await?;
    drop(first);
    let third = FileStore::open_when_free(folder.path(), std::time::Duration::from_secs(600));
    let third = StoreHandle::new(third.await?);
    third.state("importer").save(&cursor(1)).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_folder_is_said() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let file = folder.path().join("file");
    fs::write(&file, "")?;
    for path in [file.clone(), file.join("below")] {
        let error = FileStore::open(&path)
            .await
            .expect_err("it is a file")
            .to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("make state directory"), "{error}");
    }
    let store = FileStore::open(folder.path()).await?;
    for key in ["", &"ü".repeat(40)] {
        let error = store.path(key).expect_err("no name").to_string();
        assert!(error.contains("cannot name a state"), "{error}");
    }
    assert_eq!(store.path("a/b.c")?, folder.path().join("a%2Fb%2Ec.json"));
    Ok(())
}

/// A save whose caller was dropped is still written before one that was begun later. The one thread for file work is
/// busy meanwhile, so that the save cannot have ended when it is dropped.
#[test]
fn saves_are_written_in_the_order_of_their_beginning() -> Result<(), BoxError> {
    use std::task::{Context, Waker};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(async {
        let folder = TempDir::new()?;
        let store = StoreHandle::new(FileStore::open(folder.path()).await?);
        let state = store.state::<Cursor>("importer");
        // A first save looks what is there; from here on it is known.
        assert_eq!(state.load().await?, None);
        for number in (0..40).step_by(2) {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || held.recv());
            let earlier = cursor(number);
            {
                let mut dropped = std::pin::pin!(state.save(&earlier));
                let polled = dropped
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "the thread is busy");
            }
            let later = cursor(number + 1);
            let (saved, released) = tokio::join!(state.save(&later), async {
                release.send(())?;
                Ok::<_, BoxError>(busy.await?)
            });
            released??;
            assert_eq!(saved?.0, number + 2, "both were written");
            let found = state.load().await?.expect("it was saved");
            assert_eq!((found.value, found.version.0), (later, number + 2));
        }
        Ok(())
    })
}
