//! What replicas share in these tests: a store in memory, and a paused clock.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use adieu::Report;
use adieu::report::Notice;
use adieu::state::{Entry, Expected, Record, Store, StoreError, StoreFuture, StoreHandle, Version};

/// A store in memory, whose connections can be cut off, and whose saves can be held on their way.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    entries: Arc<Mutex<HashMap<String, Record>>>,
    cut: Arc<std::sync::atomic::AtomicBool>,
    hold: Arc<Hold>,
}

/// Holds the saves of one key.
#[derive(Default)]
struct Hold {
    key: Mutex<Option<&'static str>>,
    reached: tokio::sync::Notify,
    released: tokio::sync::Notify,
}

impl Shared {
    pub(crate) fn handle(&self) -> StoreHandle {
        StoreHandle::new(self.clone())
    }

    /// These entries behind a connection of its own.
    pub(crate) fn apart(&self) -> Self {
        Self {
            entries: Arc::clone(&self.entries),
            cut: Arc::default(),
            hold: Arc::default(),
        }
    }

    /// Holds the next saves of this key on their way.
    pub(crate) fn hold(&self, key: &'static str) {
        *self.hold.key.lock().expect("no panic") = Some(key);
    }

    /// Completes when one is held.
    pub(crate) async fn is_held(&self) {
        self.hold.reached.notified().await;
    }

    /// Lets the one that is held go on, and those after it.
    pub(crate) fn release(&self) {
        *self.hold.key.lock().expect("no panic") = None;
        self.hold.released.notify_one();
    }

    /// Writes what another replica would have left.
    pub(crate) fn leave(&self, key: &str, value: String) {
        let (format, stamp) = (1, 1);
        let entry = Entry::new(format, stamp, value);
        let version = Version(1);
        let mut entries = self.entries.lock().expect("no panic");
        entries.insert(key.to_owned(), Record::new(version, entry));
    }

    pub(crate) fn value(&self, key: &str) -> serde_json::Value {
        let entries = self.entries.lock().expect("no panic");
        serde_json::from_str(&entries[key].entry.value).expect("JSON")
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Release);
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.cut.load(Ordering::Acquire) {
            true => Err(StoreError::unavailable("the shared store", "cut off")),
            false => Ok(()),
        }
    }
}

impl Store for Shared {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.entries.lock().expect("no panic").get(key).cloned())
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            self.check()?;
            let is_held = *self.hold.key.lock().expect("no panic") == Some(key);
            if is_held {
                self.hold.reached.notify_one();
                self.hold.released.notified().await;
            }
            let mut entries = self.entries.lock().expect("no panic");
            let found = entries.get(key).map(|record| record.version);
            if !expected.matches(found) {
                return Err(StoreError::conflict(key, expected, found));
            }
            let version = Version(found.map_or(0, |found| found.0) + 1);
            let entry = entry.clone();
            entries.insert(key.to_owned(), Record::new(version, entry));
            Ok(version)
        })
    }
}

/// What went wrong with runs, in words.
pub(crate) fn told(report: &Report) -> Vec<String> {
    let all = report.timeline().iter();
    all.filter_map(|(_, notice)| match notice {
        Notice::RunFailed { failure, .. } => Some(failure.causes.join(": ")),
        _ => None,
    })
    .collect()
}

/// Runs several replicas on one paused clock; each script plays one of them.
pub(crate) fn together(run: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(run);
}
