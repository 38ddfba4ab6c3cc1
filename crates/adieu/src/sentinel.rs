//! The thread that nothing can block: ends the process at the hard deadline, and watches for tasks that
//! block the loop.
//!
//! It takes no lock that user code could hold and writes nothing itself: warnings go to the conductor, and
//! the last words are spoken by a thread that is waited for only so long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::conductor::HARD_MARGIN;
use crate::core::Core;
use crate::lifecycle::Exit;
use crate::report::Notice;
use crate::seat::{self, Glance, Seat};
use crate::sys;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long the main thread may take to come back once all is done.
const RETURN: Duration = Duration::from_secs(1);
/// How long the orderly way out may take after a third signal.
const AT_ONCE: Duration = Duration::from_millis(50);

const NEVER: u64 = u64::MAX;
/// No exit code yet.
const UNKNOWN: u64 = u64::MAX;

/// The handle to the sentinel.
#[derive(Clone)]
pub(crate) struct Sentinel(Arc<Shared>);

struct Shared {
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

impl Sentinel {
    /// Starts the thread. `last_words` makes and writes the report.
    pub(crate) fn post(
        core: &Arc<Core>,
        block_limit: Option<Duration>,
        last_words: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
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
            .name("adieu-sentinel".into())
            .spawn(move || {
                let watchdog = block_limit.map(|limit| Watchdog::new(watched, limit));
                theirs.stand_guard(&core, watchdog, last_words);
            })?;
        let _ = shared.thread.set(handle.thread().clone());
        Ok(Self(shared))
    }

    /// The process ends this long from now and a margin, or earlier if that was said before.
    pub(crate) fn arm(&self, left: Duration) {
        self.no_later_than(left + HARD_MARGIN);
    }

    pub(crate) fn end_now(&self) {
        self.no_later_than(AT_ONCE);
    }

    /// Whatever comes, the process ends with this code.
    pub(crate) fn decided(&self, code: u8) {
        self.0.code.store(u64::from(code), Ordering::Release);
    }

    /// The report is written; the log has to be flushed and the main thread to come back.
    pub(crate) fn written(&self) {
        self.0.written.store(true, Ordering::Release);
        self.no_later_than(RETURN);
    }

    /// The main thread is back: the process is the caller's again.
    pub(crate) fn retire(&self) {
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

impl Shared {
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

    fn stand_guard(
        &self,
        core: &Weak<Core>,
        mut watchdog: Option<Watchdog>,
        last_words: impl FnOnce() + Send + 'static,
    ) {
        if watchdog.is_some() {
            seat::watch();
        }
        while !self.retired.load(Ordering::Acquire) {
            let left = self.left();
            if left.is_some_and(|left| left.is_zero()) {
                self.end(core, last_words);
            }
            let nap = watchdog
                .as_mut()
                .and_then(|watchdog| watchdog.look(Instant::now()));
            // A wake-up between the look and the park is not lost: unpark leaves a token.
            match left.into_iter().chain(nap).min() {
                Some(nap) => thread::park_timeout(nap),
                None => thread::park(),
            }
        }
        seat::unwatch();
    }

    fn end(&self, core: &Weak<Core>, last_words: impl FnOnce() + Send + 'static) -> ! {
        if let Some(code) = self.known_code()
            && self.written.load(Ordering::Acquire)
        {
            sys::exit_now(code);
        }
        let (say, said) = mpsc::channel();
        // Unable to make a thread means unable to speak: the end comes all the same.
        let _ = thread::Builder::new()
            .name("adieu-last-words".into())
            .spawn(move || {
                last_words();
                say.send(())
            });
        let _ = said.recv_timeout(LAST_WORDS);
        // The conductor may have come to its end meanwhile.
        let exit = core.upgrade().map_or(Exit::Cut, |core| core.hard_exit());
        sys::exit_now(self.known_code().unwrap_or(exit.code()))
    }

    fn known_code(&self) -> Option<u8> {
        u8::try_from(self.code.load(Ordering::Acquire)).ok()
    }
}

/// Looks at the seats now and then while there is something to see, and sleeps while there is not.
struct Watchdog {
    core: Weak<Core>,
    limit: Duration,
    period: Duration,
    seen: HashMap<usize, Watched>,
    dozing: bool,
}

struct Watched {
    seat: Arc<Seat>,
    glance: Glance,
    since: Instant,
    last: Instant,
    /// Name and place, once it was told: when the block is over the task may be gone.
    reported: Option<(String, String)>,
}

impl Watchdog {
    fn new(core: Weak<Core>, limit: Duration) -> Self {
        let period = (limit / 4).max(Duration::from_millis(1));
        Self {
            core,
            limit,
            period,
            seen: HashMap::new(),
            dozing: false,
        }
    }

    /// Looks once; says when to look again, or `None` to sleep until the next poll.
    fn look(&mut self, now: Instant) -> Option<Duration> {
        let mut active = false;
        for seat in seat::seats() {
            let glance = seat.glance();
            let key = Arc::as_ptr(&seat) as usize;
            let watched = self.seen.entry(key).or_insert_with(|| {
                active = true;
                Watched {
                    seat: Arc::clone(&seat),
                    glance,
                    since: now,
                    last: now,
                    reported: None,
                }
            });
            active |= watched.glance != glance || glance.occupant != 0;
            watched.see(glance, now, self.limit, &self.core);
        }
        // A thread that has ended leaves its seat to us alone. What it was last seen at is over.
        let core = &self.core;
        self.seen.retain(|_, watched| {
            let is_there = Arc::strong_count(&watched.seat) > 1;
            if !is_there {
                watched.report(core, watched.last - watched.since, false);
            }
            is_there
        });
        if active {
            self.dozing = false;
        } else if self.dozing {
            return None;
        } else {
            self.dozing = true;
            seat::doze();
        }
        Some(self.period)
    }
}

impl Watched {
    fn see(&mut self, glance: Glance, now: Instant, limit: Duration, core: &Weak<Core>) {
        if glance == self.glance && glance.occupant != 0 {
            self.last = now;
            if self.reported.is_none() && now - self.since >= limit {
                // A task of another service in the process is that one's to name.
                self.reported = core.upgrade().and_then(|core| core.who(glance.occupant));
                self.report(core, now - self.since, true);
                // The blocked thread may be the one that drove sockets and timers while the others sleep. Work
                // from outside wakes one of them, and it takes over.
                if let Some(core) = core.upgrade() {
                    core.runtime.spawn(async {});
                }
            }
            return;
        }
        self.report(core, self.last - self.since, false);
        *self = Self {
            seat: Arc::clone(&self.seat),
            glance,
            since: now,
            last: now,
            reported: None,
        };
    }

    fn report(&self, core: &Weak<Core>, lasted: Duration, ongoing: bool) {
        if let (Some((task, place)), Some(core)) = (self.reported.clone(), core.upgrade()) {
            core.note(Notice::Blocked {
                task,
                place,
                lasted,
                ongoing,
            });
        }
    }
}
