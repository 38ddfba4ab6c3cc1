//! Browsers keep connections for minutes; an exit cannot wait for them.

use std::time::Duration;

use super::{Spec, Trying, idle};
use crate::discover::Speaks;
use crate::finding::Finding;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "idle-keepalive",
    group: Group::KeepAlive,
    quick: true,
    why: "Every browser tab and every connection pool keeps idle connections open; an exit that waits for them ends with \
          SIGKILL.",
    how: "Eight connections have had one answer each and are kept open, idle. After the signal the program must be gone \
          not much later than it is without them.",
    applies: "Programs that speak HTTP and keep connections. Skipped if every answer closes its connection.",
    threshold: |_| Threshold::Time(Duration::from_secs(3)),
    hints: &[
        (
            "Node",
            "`server.close()` waits for keep-alive connections before Node 19: call `server.closeIdleConnections()`",
        ),
        (
            "axum / hyper",
            "call `graceful_shutdown` on every connection, or let adieu's `app.http` do it",
        ),
        (
            "Go",
            "`server.Shutdown` closes idle connections; `net.Listener` loops of your own must do it themselves",
        ),
        (
            "nginx",
            "`worker_shutdown_timeout` puts an end to what does not end by itself",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const CONNECTIONS: usize = 8;

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if stage.found.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = stage.start().await?;
    let request = run.place.request().bytes(false);
    let mut wires = Vec::new();
    for _ in 0..CONNECTIONS {
        let asked = async {
            let mut wire = run.wire().await?;
            wire.send(&request).await?;
            let answer = wire.answer_within(PATIENCE).await?;
            Ok::<_, crate::wire::Broken>((wire, answer.head.keep_alive))
        };
        match asked.await {
            Ok((wire, true)) => wires.push(wire),
            Ok((_, false)) => {
                return Ok(Finding::skipped(super::NEVER_KEEPS));
            }
            Err(broken) => {
                return Ok(stage.not_held(wires.len(), &broken));
            }
        }
    }
    Ok(idle::hold(stage, &run, wires, "idle keep-alive connections").await)
}
