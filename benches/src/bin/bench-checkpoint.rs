//! A checkpoint in the file store, beside the bare calls that make a file durable: write beside, flush, rename, flush
//! the directory.
//!
//! Both write the same bytes on the same disk, in turn. What is above the bare calls is the generation that is kept,
//! the envelope with its checksum, and the way to the pool for blocking work and back.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adieu::state::{FileStore, StoreHandle};
use adieu_bench::{Duel, Finding, Unit, rounds};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

/// Checkpoints in one round. Few, so that some rounds are spared by whatever else is on the disk.
const TIMES: u32 = 20;

#[derive(Serialize, Deserialize)]
struct Cursor {
    processed_count: u64,
    last_id: u64,
    note: String,
}

fn cursor(last_id: u64, size: usize) -> Cursor {
    Cursor {
        processed_count: last_id,
        last_id,
        note: "x".repeat(size),
    }
}

fn main() -> io::Result<()> {
    // Beside the program, because the place for temporary files may be in memory.
    let folder =
        std::env::current_exe()?.with_file_name(format!("bench-checkpoint-{}", std::process::id()));
    let measured = compare(&folder);
    fs::remove_dir_all(&folder)?;
    measured
}

fn compare(folder: &Path) -> io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let opened = runtime.block_on(FileStore::open(folder.join("ours")));
    let store = StoreHandle::new(opened.map_err(io::Error::other)?);
    let state = store.state::<Cursor>("importer");
    let bare = Bare::open(folder.join("bare"))?;
    for (name, size) in [("small", 20), ("of 16 KiB", 16 << 10)] {
        let mut number = 0;
        let [ours, peer] = Duel::new()
            .with(|| {
                let saving = async {
                    let begun = Instant::now();
                    for _ in 0..TIMES {
                        number += 1;
                        let saved = state.save(&cursor(number, size)).await;
                        saved.expect("the disk takes it");
                    }
                    begun.elapsed()
                };
                runtime.block_on(saving) / TIMES
            })
            .with(|| bare.round(size).expect("the disk takes it"))
            .fight(rounds(150));
        Finding::value("checkpoint", name, Unit::Us, ours / 1e3)
            .over("write, fsync, rename", peer / 1e3)
            .at_most(1.1)
            .tell();
    }
    Ok(())
}

/// What a careful person writes by hand.
struct Bare {
    folder: File,
    new: PathBuf,
    current: PathBuf,
}

impl Bare {
    fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        Ok(Self {
            folder: File::open(&path)?,
            new: path.join("state.new"),
            current: path.join("state.json"),
        })
    }

    fn round(&self, size: usize) -> io::Result<Duration> {
        let begun = Instant::now();
        for number in 0..TIMES {
            let text = serde_json::to_vec(&cursor(number.into(), size))?;
            let mut file = File::create(&self.new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            drop(file);
            fs::rename(&self.new, &self.current)?;
            self.folder.sync_all()?;
        }
        Ok(begun.elapsed() / TIMES)
    }
}
