//! The power goes at any instant: what was acknowledged is on the disk.
//!
//! SIGKILL cannot show that, because the kernel keeps what a killed process wrote. So the calls of a process that saves are
//! recorded with strace, and [replayed](disk) on a model of a disk that keeps no more than it has to. Every state in which
//! the power can leave that disk is written to a directory and opened.

mod disk;
mod trace;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};
use tempfile::TempDir;

use crate::conformance::Cursor;
use disk::{Disk, Names};
use trace::{Call, record};

/// The directory, in the process that is recorded.
const INSIDE: &str = "ADIEU_TEST_RECORDED";
/// How many saves it makes.
const SAVES: u64 = 6;

fn note(number: u64) -> String {
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
    // The fourth is of another length than the others: its file cannot be one of theirs.
    let length = if number == 4 { 2_000 } else { 600 };
    letter.to_string().repeat(length)
}

fn block_on<T>(work: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Goes on from what is there, and says after each save that it is acknowledged.
async fn save_some(folder: &Path) -> Result<(), BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let state = store.state::<Cursor>("cursor");
    let mut last_id = state.load().await?.map_or(0, |found| found.value.last_id);
    for _ in 0..SAVES {
        last_id += 1;
        let note = note(last_id);
        state.save(&Cursor { last_id, note }).await?;
        println!("saved {last_id}");
    }
    // Not closed: what it leaves is what one that is killed leaves.
    Ok(())
}

/// The calls of a process that saves into this directory; `None` where nothing can be recorded.
fn recorded(folder: &Path, test: &str) -> Result<Option<Vec<Call>>, BoxError> {
    let arguments = ["--exact", test, "--nocapture"];
    record(&arguments, (INSIDE, folder))
}

/// What is found in a directory as the power left it.
async fn found(names: &Names) -> Result<(u64, TempDir), BoxError> {
    // In memory, where there is such a directory: it is about what is there, not about how it came there.
    let scratch = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let root = scratch.path().join("disk");
    fs::create_dir(&root)?;
    disk::write(names, &root)?;
    let folder = root.join("state");
    let store = StoreHandle::new(FileStore::open(&folder).await?);
    let loaded = store.state::<Cursor>("cursor").load().await?;
    store.close().await?;
    let number = match loaded {
        Some(found) => {
            let number = found.value.last_id;
            assert_eq!(found.value.note, note(number), "torn");
            number
        }
        None => 0,
    };
    Ok((number, scratch))
}

/// Replays the calls; after each of them, every disk that the power can leave has the last acknowledged save or the one
/// that was being made. Gives the number of disks.
async fn survives(disk: &mut Disk, calls: &[Call]) -> Result<usize, BoxError> {
    let mut acknowledged = disk.acknowledged();
    // What the process went on from may be a save that was not acknowledged.
    let resumed = found(&disk.cached()).await?.0;
    let (mut seen, mut disks) = (BTreeSet::new(), 0);
    for (at, call) in calls.iter().enumerate() {
        if let Call::Acknowledged(number) = call {
            acknowledged = *number;
        }
        disk.apply(call);
        for names in disk.after_a_cut() {
            if !seen.insert((acknowledged, names.clone())) {
                continue;
            }
            disks += 1;
            let call = call.said(Path::new("")).unwrap_or_default();
            let cut = || format!("cut after call {at}, {call}, {acknowledged} acknowledged");
            let (number, scratch) = found(&names)
                .await
                .map_err(|error| format!("{}: {error}", cut()))?;
            assert!(
                (acknowledged..=acknowledged.max(resumed) + 1).contains(&number),
                "{}: {number} was found",
                cut()
            );
            for file in fs::read_dir(scratch.path().join("disk/state"))? {
                let name = file?.file_name().to_string_lossy().into_owned();
                assert!(!name.contains("corrupt"), "{}: {name}", cut());
            }
        }
    }
    Ok(disks)
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut() -> Result<(), BoxError> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return block_on(save_some(Path::new(&folder)));
    }
    let test = "power_cut::what_was_acknowledged_is_there_after_a_power_cut";
    let scratch = TempDir::new()?;
    let root = scratch.path().canonicalize()?;
    let folder = root.join("state");
    let Some(calls) = recorded(&folder, test)? else {
        fixture_skip::not_possible("strace cannot record");
        return Ok(());
    };
    let mut disk = Disk::new(&root);
    let mut disks = block_on(survives(&mut disk, &calls))?;
    assert_eq!(disk.acknowledged(), SAVES);
    assert_eq!(disk::read(&root)?, disk.cached(), "the model is right");

    // The process was killed at each of the calls of its last save, and the next one goes on. The power goes in that one.
    let last = calls
        .iter()
        .rposition(|call| *call == Call::Acknowledged(SAVES - 1))
        .ok_or("no save before the last")?;
    for end in last..calls.len() {
        let mut disk = Disk::new(&root);
        calls[..=end].iter().for_each(|call| disk.apply(call));
        fs::remove_dir_all(&folder)?;
        disk::write(&disk.cached(), &root)?;
        let Some(calls) = recorded(&folder, test)? else {
            return Err("it could be recorded before".into());
        };
        disk.next_process();
        disks += block_on(survives(&mut disk, &calls))?;
    }
    println!("{disks} disks");
    assert!(disks > 100, "{disks} disks are too few to have been all");
    Ok(())
}

/// What a save does, in order: no flush may be missing, and none is for nothing.
#[test]
fn a_save_is_flushed_before_it_is_renamed_and_its_folder_after() -> Result<(), BoxError> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return block_on(save_some(Path::new(&folder)));
    }
    let test = "power_cut::a_save_is_flushed_before_it_is_renamed_and_its_folder_after";
    let scratch = TempDir::new()?;
    let root = scratch.path().canonicalize()?;
    let Some(calls) = recorded(&root.join("state"), test)? else {
        fixture_skip::not_possible("strace cannot record");
        return Ok(());
    };
    let calls: Vec<_> = calls.iter().filter_map(|call| call.said(&root)).collect();
    let saves: Vec<_> = calls
        .split(|call| call.starts_with("acknowledged"))
        .collect();
    assert_eq!(saves.len() as u64, SAVES + 1, "{calls:?}");
    assert_eq!(
        saves[0],
        [
            "make state",
            "flush .",
            "make state/lock",
            "make state/cursor.new",
            "write state/cursor.new",
            "flush state/cursor.new",
            "rename state/cursor.new state/cursor.json",
            "flush state",
        ]
    );
    assert_eq!(
        saves[1],
        [
            "make state/cursor.new",
            "write state/cursor.new",
            "flush state/cursor.new",
            "exchange state/cursor.new state/cursor.json",
            "rename state/cursor.new state/cursor.previous.json",
            "flush state",
        ]
    );
    // Three files are made; from then on they take turns, as long as they have the same length.
    let usual = [
        "write state/cursor.new",
        "flush state/cursor.new",
        "exchange state/cursor.new state/cursor.json",
        "exchange state/cursor.new state/cursor.previous.json",
        "flush state",
    ];
    assert_eq!(saves[2][0], "make state/cursor.new");
    assert_eq!(
        saves[3][..2],
        ["remove state/cursor.new", "make state/cursor.new"]
    );
    assert_eq!(saves[3][2..], usual);
    assert_eq!(saves[4], usual);
    Ok(())
}
