//! A process that saves as fast as it can, killed at random instants: the state loads every time, and is never
//! older than the last save that was acknowledged.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};

use crate::conformance::Cursor;

/// The directory, in the process that is to be killed.
const INSIDE: &str = "ADIEU_TEST_SAVER";

fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0) % below
}

fn block_on<T>(work: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Saves forever. The values are of many sizes, so that a torn one would be seen as such.
async fn save_for_ever(folder: &Path) -> Result<(), BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let state = store.state::<Cursor>("cursor");
    let mut last_id = state.load().await?.map_or(0, |found| found.value.last_id);
    loop {
        last_id += 1;
        let letter = char::from(b'a' + u8::try_from(last_id % 26)?);
        let note = letter
            .to_string()
            .repeat(usize::try_from(last_id % 50 * 1_000)?);
        state.save(&Cursor { last_id, note }).await?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "saved {last_id}")?;
        out.flush()?;
    }
}

async fn load(folder: &Path) -> Result<Option<Cursor>, BoxError> {
    let store = StoreHandle::new(FileStore::open(folder).await?);
    let found = store.state::<Cursor>("cursor").load().await?;
    store.close().await?;
    Ok(found.map(|found| found.value))
}

#[test]
fn killed_at_any_instant_the_last_acknowledged_save_is_there() -> Result<(), BoxError> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return block_on(save_for_ever(Path::new(&folder)));
    }
    let kills = if std::env::var_os("ADIEU_PROVE").is_some() {
        2_000
    } else {
        100
    };
    let folder = tempfile::TempDir::new()?;
    let (mut acknowledged, mut unheard) = (0, 0);
    for _ in 0..kills {
        let mut child = Command::new(std::env::current_exe()?)
            .args([
                "--exact",
                "killed::killed_at_any_instant_the_last_acknowledged_save_is_there",
            ])
            .arg("--nocapture")
            .env(INSIDE, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("its output")?).lines();
        let mut saved = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("saved ")?.parse::<u64>().ok());
        for _ in 0..random(8) {
            acknowledged = saved.next().ok_or("the saver ended by itself")?;
        }
        thread::sleep(Duration::from_micros(random(4_000)));
        child.kill()?;
        acknowledged = saved.last().unwrap_or(acknowledged);
        child.wait()?;
        let found = block_on(load(folder.path()))?;
        let found_id = found.as_ref().map_or(0, |found| found.last_id);
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found_id),
            "{found_id} was found, {acknowledged} was acknowledged"
        );
        unheard += found_id - acknowledged;
        acknowledged = found_id;
        if let Some(found) = found {
            let letter = char::from(b'a' + u8::try_from(found_id % 26)?);
            assert!(
                found.note.chars().all(|one| one == letter),
                "torn: {found_id}"
            );
        }
    }
    println!("{kills} kills, {acknowledged} saves, {unheard} of them without their answer");
    for file in std::fs::read_dir(folder.path())? {
        let name = file?.file_name().to_string_lossy().into_owned();
        assert!(
            !name.contains("corrupt"),
            "the last generation was whole every time: {name}"
        );
    }
    Ok(())
}
