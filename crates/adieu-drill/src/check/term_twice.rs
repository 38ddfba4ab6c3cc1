//! A second SIGTERM must not drop requests.

use std::time::Duration;

use super::{Spec, Trying, signals};
use crate::context::CheckContext;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "term-twice",
    group: Group::Signals,
    quick: true,
    why: "Supervisors repeat themselves: a second SIGTERM while draining must not cut off what the first one allowed to \
          finish.",
    how: "The stop signal is sent, and again 100 ms later, with a request in flight. The request must be answered whole, \
          and the program must end within the grace period without a crash.",
    applies: "Always; without a slow path only the end is judged, against that after a single signal. Skipped when the stop signal is SIGINT, where a second \
              one may force.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "install the handler for good, not once: after SA_RESETHAND or a handler that removes itself, the second \
                 SIGTERM kills",
        ),
        (
            "Python",
            "`loop.add_signal_handler` stays; a handler that calls `signal.signal(SIGTERM, SIG_DFL)` does not",
        ),
        ("Node", "`process.on`, not `process.once`"),
        (
            "Go",
            "do not call `stop()` of `signal.NotifyContext` before the drain is over",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<crate::finding::Finding, crate::DrillError> {
    if cx.drill.signal == crate::StopSignal::Int {
        return Ok(crate::finding::Finding::skipped(
            "a second SIGINT may force the end",
        ));
    }
    signals::stop_with(cx, "a second signal", async |run| {
        let at = run.stop();
        tokio::time::sleep(Duration::from_millis(100)).await;
        run.stop();
        at
    })
    .await
}
