//! Time as it passes, or as this process spends it.

use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures a contestant.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

/// With `--cpu` the processor time of all threads is measured instead: on a machine that has other work to do
/// it is the better measure of what something costs.
static CLOCK: LazyLock<ClockId> = LazyLock::new(|| {
    if std::env::args().any(|word| word == "--cpu") {
        ClockId::ProcessCPUTime
    } else {
        ClockId::Monotonic
    }
});

fn now() -> Duration {
    let now = clock_gettime(*CLOCK);
    Duration::from_secs(now.tv_sec.cast_unsigned())
        + Duration::from_nanos(now.tv_nsec.cast_unsigned())
}

impl Stopwatch {
    /// From here.
    #[must_use]
    pub fn start() -> Self {
        Self(now())
    }

    /// To here.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }
}
