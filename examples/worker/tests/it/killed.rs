//! Killed at random instants, again and again: the numbers go on with none left out, and nothing that was acknowledged
//! is done again.

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::child::{Worker, kept, number};

fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0) % below
}

#[test]
fn killed_at_any_instant_it_goes_on_where_it_was() {
    let kills = if std::env::var_os("ADIEU_PROVE").is_some() {
        500
    } else {
        40
    };
    let folder = TempDir::new().expect("a directory");
    let (mut acknowledged, mut unheard) = (0, 0);
    for _ in 0..kills {
        let worker = Worker::start(folder.path(), &["--batch-ms", "0"]);
        let resumed = worker.number("resumed");
        // One batch may have been saved whose line was lost with the process.
        assert!(
            resumed == acknowledged || resumed == acknowledged + 1,
            "resumed {resumed} after {acknowledged}"
        );
        unheard += resumed - acknowledged;
        acknowledged = resumed;
        for _ in 0..random(20) {
            acknowledged += 1;
            assert_eq!(worker.number("processed"), acknowledged);
        }
        thread::sleep(Duration::from_micros(random(3_000)));
        worker.signal(Signal::KILL);
        for line in worker.gone().lines {
            acknowledged += 1;
            assert_eq!(number(&line, "processed"), Some(acknowledged), "{line}");
        }
        if acknowledged > 0 {
            let (last_id, count) = kept(folder.path());
            assert_eq!(last_id, count);
            assert!(last_id == acknowledged || last_id == acknowledged + 1);
        }
    }
    println!("{kills} kills, {acknowledged} batches, {unheard} saved without their line");
    let damaged = std::fs::read_dir(folder.path())
        .expect("the directory")
        .flatten();
    let mut damaged = damaged.filter(|file| file.file_name().to_string_lossy().contains("corrupt"));
    assert!(
        damaged.next().is_none(),
        "a whole file was there after every kill"
    );
}
