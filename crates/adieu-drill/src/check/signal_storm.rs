//! A hundred signals are one.

use std::time::Duration;

use tokio::time::sleep;

use super::{Spec, Trying, signals};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::Signal;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "signal-storm",
    group: Group::Signals,
    quick: false,
    why: "Supervisors that retry, scripts in a loop and several of them at once send the same signal many times; the stop \
          must not trip over itself.",
    how: "The stop signal is sent a hundred times in half a second, with requests in flight. They must be answered, and the \
          program must end within the grace period without a crash.",
    applies: "Always; without a slow path only the end is judged, against that after a single signal. Skipped when the stop signal is SIGINT, where a second \
              one may force.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "a handler only sets a flag or writes a byte; the stop itself runs once",
        ),
        (
            "Python",
            "`loop.add_signal_handler` with an Event, not a handler that raises",
        ),
        ("Node", "a `stopping` flag at the top of the handler"),
        (
            "Go",
            "read the channel once, and leave further signals in it",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.drill.signal == crate::StopSignal::Int {
        return Ok(Finding::skipped("a second SIGINT may force the end"));
    }
    signals::stop_with(cx, "a hundred signals", async |run| {
        let at = run.stop();
        for _ in 1..100 {
            sleep(Duration::from_millis(5)).await;
            run.stop();
            // Harmless by default, and often handled without care.
            run.process.signal(Signal::WINCH);
        }
        at
    })
    .await
}
