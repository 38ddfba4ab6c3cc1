//! The thread that nothing can block: ends the process at the hard deadline, and runs the watchdog.
//!
//! It takes no lock that user code could hold and writes nothing itself: warnings go to the driver, and
//! the final report is written by a thread that is waited for only so long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use adieu_lifecycle::Exit;

use crate::runtime::shared::ServiceShared;
use crate::runtime::watchdog::Watchdog;
use crate::tracking::poll_slot;
use crate::util::sys;

/// How much later than the grace period the process ends, if the driver has not ended it.
const HARD_MARGIN: Duration = Duration::from_millis(100);
/// How long the final report may take.
const FINAL_REPORT: Duration = Duration::from_millis(200);
/// How long the main thread may take to come back once all is done.
const MAIN_RETURN: Duration = Duration::from_secs(1);
/// How long the orderly way out may take after a third signal.
const THIRD_SIGNAL_EXIT: Duration = Duration::from_millis(50);

const NEVER: u64 = u64::MAX;
/// No exit code yet.
const UNKNOWN: u64 = u64::MAX;

/// The handle to the thread.
#[derive(Clone)]
pub(crate) struct HardExit(Arc<ExitState>);

struct ExitState {
    start: Instant,
    /// When the process ends, in nanoseconds since `start`.
    deadline: AtomicU64,
    /// The exit code, once it is known.
    code: AtomicU64,
    /// The report is written.
    written: AtomicBool,
    retired: AtomicBool,
    thread: OnceLock<Thread>,
}

impl HardExit {
    /// Starts the thread. `final_report` makes and writes the report.
    pub(crate) fn spawn(
        core: &Arc<ServiceShared>,
        block_limit: Option<Duration>,
        final_report: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(ExitState {
            start: Instant::now(),
            deadline: AtomicU64::new(NEVER),
            code: AtomicU64::new(UNKNOWN),
            written: false.into(),
            retired: false.into(),
            thread: OnceLock::new(),
        });
        let (theirs, core) = (Arc::clone(&shared), Arc::downgrade(core));
        let watched = Weak::clone(&core);
        let handle = thread::Builder::new()
            .name("adieu-hard-exit".into())
            .spawn(move || {
                let watchdog = block_limit.map(|limit| Watchdog::new(watched, limit));
                theirs.run(&core, watchdog, final_report);
            })?;
        let _ = shared.thread.set(handle.thread().clone());
        Ok(Self(shared))
    }

    /// The process ends this long from now and a margin, or earlier if that was said before.
    pub(crate) fn arm(&self, left: Duration) {
        self.no_later_than(left + HARD_MARGIN);
    }

    pub(crate) fn end_now(&self) {
        self.no_later_than(THIRD_SIGNAL_EXIT);
    }

    /// Whatever comes, the process ends with this code.
    pub(crate) fn decided(&self, code: u8) {
        self.0.code.store(u64::from(code), Ordering::Release);
    }

    /// The report is written; the log has to be flushed and the main thread to come back.
    pub(crate) fn written(&self) {
        self.0.written.store(true, Ordering::Release);
        self.no_later_than(MAIN_RETURN);
    }

    /// The main thread is back: the process is the caller's again.
    pub(crate) fn stop(&self) {
        self.0.retired.store(true, Ordering::Release);
        self.0.wake();
    }

    fn no_later_than(&self, left: Duration) {
        let at = self.0.start.elapsed() + left;
        let at = u64::try_from(at.as_nanos()).unwrap_or(NEVER);
        self.0.deadline.fetch_min(at, Ordering::AcqRel);
        self.0.wake();
    }
}

impl ExitState {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Time left until the hard end; `None` while there is none.
    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline.load(Ordering::Acquire);
        (deadline != NEVER)
            .then(|| Duration::from_nanos(deadline).saturating_sub(self.start.elapsed()))
    }

    fn run(
        &self,
        core: &Weak<ServiceShared>,
        mut watchdog: Option<Watchdog>,
        final_report: impl FnOnce() + Send + 'static,
    ) {
        if watchdog.is_some() {
            poll_slot::watch();
        }
        while !self.retired.load(Ordering::Acquire) {
            let left = self.left();
            if left.is_some_and(|left| left.is_zero()) {
                self.end(core, final_report);
            }
            let pause = watchdog
                .as_mut()
                .and_then(|watchdog| watchdog.look(Instant::now()));
            // A wake-up between the look and the park is not lost: unpark leaves a token.
            match left.into_iter().chain(pause).min() {
                Some(pause) => thread::park_timeout(pause),
                None => thread::park(),
            }
        }
        poll_slot::unwatch();
    }

    fn end(&self, core: &Weak<ServiceShared>, final_report: impl FnOnce() + Send + 'static) -> ! {
        if let Some(code) = self.known_code()
            && self.written.load(Ordering::Acquire)
        {
            sys::exit_now(code);
        }
        let (say, said) = mpsc::channel();
        // Unable to make a thread means unable to speak: the end comes all the same.
        let _ = thread::Builder::new()
            .name("adieu-final-report".into())
            .spawn(move || {
                final_report();
                say.send(())
            });
        let _ = said.recv_timeout(FINAL_REPORT);
        // The driver may have come to its end meanwhile.
        let exit = core
            .upgrade()
            .map_or(Exit::Cut, |core| core.hard_exit_code());
        sys::exit_now(self.known_code().unwrap_or(exit.code()))
    }

    fn known_code(&self) -> Option<u8> {
        u8::try_from(self.code.load(Ordering::Acquire)).ok()
    }
}
