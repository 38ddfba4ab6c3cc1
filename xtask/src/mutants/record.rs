//! A file with one JSON document a line, to which each result is appended at once: a run that is ended goes on there.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pool::lock;
use crate::step::Failure;

pub(super) struct Record<T> {
    path: PathBuf,
    file: Mutex<File>,
    kind: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Record<T> {
    pub(super) fn open(path: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Self {
            path,
            file: Mutex::new(file),
            kind: PhantomData,
        })
    }

    /// In the order of writing. A line that was cut in the middle is passed over.
    pub(super) fn read(&self) -> Vec<T> {
        fs::read_to_string(&self.path)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub(super) fn append(&self, item: &T) -> Result<(), Failure> {
        let text = serde_json::to_string(item)
            .map_err(|error| Failure::new(format!("cannot write a result: {error}")))?;
        lock(&self.file).write_all(format!("{text}\n").as_bytes())?;
        Ok(())
    }
}
