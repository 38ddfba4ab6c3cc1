//! Browsers keep connections for minutes; an exit cannot wait for them.

use std::time::Duration;

use super::{Spec, Trying, idle};
use crate::capabilities::Speaks;
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::raw::ANSWER_TIMEOUT;
use crate::report::Group;
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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const CONNECTIONS: usize = 8;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = cx.start().await?;
    let request = run.endpoint.request().bytes(false);
    let mut conns = Vec::new();
    for _ in 0..CONNECTIONS {
        let asked = async {
            let mut conn = run.connect().await?;
            conn.send(&request).await?;
            let answer = conn.answer_within(ANSWER_TIMEOUT).await?;
            Ok::<_, crate::raw::WireError>((conn, answer.head.keep_alive))
        };
        match asked.await {
            Ok((conn, true)) => conns.push(conn),
            Ok((_, false)) => {
                return Ok(Finding::skipped(super::NEVER_KEEPS));
            }
            Err(broken) => {
                return Ok(cx.not_held(conns.len(), &broken));
            }
        }
    }
    Ok(idle::hold(cx, &run, conns, "idle keep-alive connections").await)
}
