//! The wall clock, and how to wait for it.
//!
//! On Linux a timer of the kernel fires at a moment of the wall clock: also when the machine was suspended meanwhile,
//! and at once when the clock is set. Elsewhere it is a sleep of the same length: a clock that is set, or a suspended
//! machine, is noticed when it ends.

use std::time::SystemTime;
#[cfg(feature = "testing")]
use std::{sync::Mutex, sync::PoisonError, time::Duration};

use tokio::time::Instant;

use super::timestamp::Timestamp;

/// Where the time comes from.
#[derive(Default)]
pub(crate) enum Clock {
    #[default]
    System,
    /// In a rehearsal: the runtime's clock, which is paused, from a moment on.
    #[cfg(feature = "testing")]
    Test(TestClock),
}

#[cfg(feature = "testing")]
pub(crate) struct TestClock {
    set: Mutex<(Instant, Timestamp)>,
    changed: tokio::sync::Notify,
}

#[cfg(feature = "testing")]
impl TestClock {
    /// From the beginning of the year 2000 on.
    pub(crate) fn new() -> Self {
        Self {
            set: Mutex::new((Instant::now(), Timestamp(946_684_800_000_000_000))),
            changed: tokio::sync::Notify::new(),
        }
    }

    /// Sets the clock on the wall.
    pub(crate) fn set(&self, to: SystemTime) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) =
            (Instant::now(), Timestamp::of(to));
        self.changed.notify_waiters();
    }

    fn now(&self) -> Timestamp {
        let (at, moment) = *self.set.lock().unwrap_or_else(PoisonError::into_inner);
        moment.plus(at.elapsed())
    }

    async fn wait(&self, until: Timestamp) {
        let changed = self.changed.notified();
        // Rounded up: the runtime's timers know milliseconds, and to wake too early is to wake twice.
        let nap = until.since(self.now()) + Duration::from_millis(1);
        let _ = tokio::time::timeout(nap, changed).await;
    }
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::of(SystemTime::now()),
            #[cfg(feature = "testing")]
            Self::Test(played) => played.now(),
        }
    }
}

/// Waits for moments of one clock.
pub(crate) struct WallClockTimer {
    #[cfg(target_os = "linux")]
    timer: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

impl WallClockTimer {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            timer: linux::timer(),
        }
    }

    /// Completes at this moment, or earlier: look at the clock. Forever, if there is none.
    ///
    /// Cancel-safe: nothing is lost but the waiting.
    pub(crate) async fn wait(&self, clock: &Clock, until: Option<Timestamp>) {
        let Some(until) = until else {
            return std::future::pending().await;
        };
        match clock {
            #[cfg(feature = "testing")]
            Clock::Test(played) => played.wait(until).await,
            Clock::System => {
                #[cfg(target_os = "linux")]
                if let Some(timer) = &self.timer
                    && linux::wait(timer, until).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep_until(Instant::now() + until.since(clock.now())).await;
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use super::Timestamp;
    use crate::util::{panics, sys};

    /// None where there are no descriptors left, or the runtime has its I/O disabled.
    pub(super) fn timer() -> Option<AsyncFd<OwnedFd>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags).ok()?;
        // There is no other way to ask whether I/O is enabled.
        panics::quietly(|| sys::watch_readable(timer)).ok()?.ok()
    }

    /// Ends at the moment, or with the clock being set; which of the two, the clock tells.
    pub(super) async fn wait(timer: &AsyncFd<OwnedFd>, until: Timestamp) -> io::Result<()> {
        // Zero would mean never.
        let nanos = until.0.max(1);
        let spec = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: nanos / 1_000_000_000,
                tv_nsec: nanos % 1_000_000_000,
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(timer, flags, &spec)?;
        loop {
            let mut guard = timer.readable().await?;
            let mut count = [0; 8];
            match rustix::io::read(guard.get_inner(), &mut count) {
                Err(rustix::io::Errno::WOULDBLOCK) => guard.clear_ready(),
                // Fired, or cancelled because the clock was set.
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(30);

    fn soon() -> Timestamp {
        Clock::System.now().plus(SOON)
    }

    /// On a paused clock of the runtime a sleep is over at once, and only the kernel's timer waits for the moment.
    #[tokio::test(start_paused = true)]
    async fn the_kernel_s_timer_waits_for_the_wall_clock() {
        let timer = WallClockTimer::new();
        assert!(timer.timer.is_some());
        for _ in 0..3 {
            let until = soon();
            timer.wait(&Clock::System, Some(until)).await;
            assert!(Clock::System.now() >= until);
        }
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_is_forgotten() {
        let timer = WallClockTimer::new();
        let far = Clock::System.now().plus(Duration::from_secs(3_600));
        let given_up = tokio::time::timeout(SOON, timer.wait(&Clock::System, Some(far))).await;
        assert!(given_up.is_err());
        // Sooner than what it was set to before.
        timer.wait(&Clock::System, Some(soon())).await;
        // And not at once, because it has fired before.
        let again = tokio::time::timeout(SOON, timer.wait(&Clock::System, Some(far))).await;
        assert!(again.is_err());
    }

    #[tokio::test]
    async fn a_moment_that_has_passed_does_not_wait() {
        let timer = WallClockTimer::new();
        for past in [Timestamp(-1), Timestamp(0), Clock::System.now()] {
            timer.wait(&Clock::System, Some(past)).await;
        }
    }

    #[test]
    fn a_runtime_without_io_sleeps_instead() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let timer = WallClockTimer::new();
            assert!(timer.timer.is_none());
            timer.wait(&Clock::System, Some(soon())).await;
        });
    }
}
