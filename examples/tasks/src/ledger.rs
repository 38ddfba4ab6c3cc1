//! The shop's ledger: stands for a database, so that there is nothing to install.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Counts orders. Like a pool's handle it is cheap to clone, and all clones are one ledger.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Counts>);

#[derive(Default)]
struct Counts {
    accepted: AtomicU32,
    packed: AtomicU32,
}

impl Ledger {
    pub(crate) async fn open() -> std::io::Result<Self> {
        sleep(Duration::from_millis(50)).await;
        Ok(Self(Arc::default()))
    }

    pub(crate) fn accept(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn pack(&self, _order: u32) {
        self.0.packed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn summary(&self) -> String {
        let (accepted, packed) = self.counts();
        format!("{packed} of {accepted} orders packed")
    }

    /// A close that fails is in the report and in the exit code.
    pub(crate) async fn close(&self) -> Result<(), String> {
        sleep(Duration::from_millis(50)).await;
        let (accepted, packed) = self.counts();
        if packed != accepted {
            return Err(format!("{} orders were lost", accepted - packed));
        }
        println!("ledger: closed, {}", self.summary());
        Ok(())
    }

    fn counts(&self) -> (u32, u32) {
        let packed = self.0.packed.load(Ordering::Relaxed);
        (self.0.accepted.load(Ordering::Relaxed), packed)
    }
}
