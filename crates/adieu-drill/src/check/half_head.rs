//! Half a request head, and then nothing.

use std::time::Duration;

use super::{Spec, Trying, idle};
use crate::discover::Speaks;
use crate::finding::Finding;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;
use crate::wire::Broken;

pub(crate) const SPEC: Spec = Spec {
    id: "half-head",
    group: Group::KeepAlive,
    quick: false,
    why: "A client that vanished in the middle of a request, or an attacker, must not hold the exit until the last \
          deadline.",
    how: "Six connections have sent half a request head, three of them after a whole request was answered, and say nothing \
          more. After the signal the program must be gone not much later than it is without them.",
    applies: "Programs that speak HTTP.",
    threshold: |_| Threshold::Time(Duration::from_secs(5)),
    hints: &[
        (
            "axum / hyper",
            "set `header_read_timeout`, and end half heads some time after the stop; adieu's `app.http` does \
                          both",
        ),
        ("Go", "`ReadHeaderTimeout`"),
        (
            "Node",
            "`server.headersTimeout` and `connectionsCheckingInterval`, or `closeAllConnections()` after a while",
        ),
        ("uvicorn", "`--timeout-graceful-shutdown`"),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if stage.found.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = stage.start().await?;
    let request = run.place.request();
    let head = request.head(false);
    let half = &head.as_bytes()[..head.len() - 4];
    let mut wires = Vec::new();
    for number in 0..6 {
        let begun = async {
            let mut wire = run.wire().await?;
            let mut open = true;
            if number % 2 == 1 {
                wire.send(&request.bytes(false)).await?;
                open = wire.answer_within(PATIENCE).await?.head.keep_alive;
            }
            if open {
                wire.send_part(half).await?;
            }
            Ok::<_, Broken>(open.then_some(wire))
        };
        match begun.await {
            Ok(wire) => wires.extend(wire),
            Err(broken) => {
                return Ok(stage.not_held(wires.len(), &broken));
            }
        }
    }
    run.let_arrive().await;
    Ok(idle::hold(stage, &run, wires, "half request heads").await)
}
