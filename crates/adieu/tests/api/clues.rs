//! What tests leave behind to be found: flags, moments, destructors that tell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Seconds.
pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A scope with ten seconds of grace that is asked to stop after one.
pub(crate) fn stopped_after_a_second() -> adieu::Scope {
    calm().stop_when(tokio::time::sleep(secs(1)))
}

/// A scope with ten seconds of grace.
pub(crate) fn calm() -> adieu::Scope {
    adieu::scope("test").grace(secs(10))
}

/// Something happened, or not.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the flag when it is dropped.
    pub(crate) fn on_drop(&self) -> impl Send + Sync + use<> {
        let flag = self.clone();
        OnDrop(Some(move || flag.set()))
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.0
            .lock()
            .expect("no thread panics while writing")
            .push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0
            .lock()
            .expect("no thread panics while writing")
            .clone()
    }

    /// Writes the line when it is dropped.
    pub(crate) fn on_drop(&self, line: &'static str) -> impl Send + Sync + use<> {
        let diary = self.clone();
        OnDrop(Some(move || diary.write(line)))
    }
}

/// Runs code when it is dropped.
pub(crate) struct OnDrop<F: FnOnce()>(pub(crate) Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(code) = self.0.take() {
            code();
        }
    }
}

/// Opens nothing, well.
pub(crate) async fn nothing() -> std::io::Result<()> {
    Ok(())
}

/// Panics, where nothing would be returned.
pub(crate) fn collapse(why: &str) {
    panic!("{why}");
}
