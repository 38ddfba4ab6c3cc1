//! Half a request head, and then nothing.

use std::time::Duration;

use super::{Spec, Trying, idle};
use crate::capabilities::Speaks;
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, WireError};
use crate::report::Group;
use crate::threshold::Threshold;

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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = cx.start().await?;
    let request = run.endpoint.request();
    let head = request.head(false);
    let half = &head.as_bytes()[..head.len() - 4];
    let mut conns = Vec::new();
    for number in 0..6 {
        let begun = async {
            let mut conn = run.connect().await?;
            let mut open = true;
            if number % 2 == 1 {
                conn.send(&request.bytes(false)).await?;
                open = conn.answer_within(ANSWER_TIMEOUT).await?.head.keep_alive;
            }
            if open {
                conn.send_part(half).await?;
            }
            Ok::<_, WireError>(open.then_some(conn))
        };
        match begun.await {
            Ok(conn) => conns.extend(conn),
            Err(broken) => {
                return Ok(cx.not_held(conns.len(), &broken));
            }
        }
    }
    run.let_arrive().await;
    Ok(idle::hold(cx, &run, conns, "half request heads").await)
}
