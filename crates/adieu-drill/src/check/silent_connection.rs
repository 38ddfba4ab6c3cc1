//! A client that connects and never sends a byte must not hold the exit.

use std::time::Duration;

use super::{Spec, Trying, idle};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "silent-connection",
    group: Group::KeepAlive,
    quick: true,
    why: "Load balancers and browsers open connections ahead of need; one that never spoke must not hold the exit.",
    how: "Eight connections are open on which nothing was ever sent. After the signal the program must be gone not much \
          later than it is without them.",
    applies: "Always.",
    threshold: |_| Threshold::Time(Duration::from_secs(3)),
    hints: &[
        (
            "Node",
            "`server.closeAllConnections()` after the drain, or a `connectionsCheckingInterval` that is short",
        ),
        (
            "Go",
            "`server.Shutdown` waits up to 5 s for a connection that never spoke: set `ReadHeaderTimeout`",
        ),
        (
            "axum / hyper",
            "the automatic builder waits for the first byte to know the version: cancel it at the stop, as \
                          adieu's `app.http` does",
        ),
        (
            "any",
            "close at the stop every connection that has no request on it",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const CONNECTIONS: usize = 8;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let run = cx.start().await?;
    let mut conns = Vec::new();
    for _ in 0..CONNECTIONS {
        match run.connect().await {
            Ok(conn) => conns.push(conn),
            Err(broken) => {
                return Ok(cx.not_held(conns.len(), &broken));
            }
        }
    }
    run.let_arrive().await;
    Ok(idle::hold(cx, &run, conns, "silent connections").await)
}
