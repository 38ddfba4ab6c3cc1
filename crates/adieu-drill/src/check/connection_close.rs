//! Responses announce with `Connection: close` that the connection ends.

use std::time::Duration;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::raw::ANSWER_TIMEOUT;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "connection-close",
    group: Group::KeepAlive,
    quick: true,
    why: "A client that is not told sends its next request on a connection that is about to vanish, and loses it.",
    how: "Requests on keep-alive connections are in flight when the signal comes, and outlast whatever the program does before \
          it drains. Their answers must say `Connection: close`.",
    applies: "Needs a path that answers late (--slow), and a server that keeps connections. HTTP/1.1 only; see h2-goaway.",
    threshold: |_| Threshold::Count(0, "answers without it"),
    hints: &[
        (
            "axum / hyper",
            "`graceful_shutdown` on the connection, or adieu's `app.http`",
        ),
        (
            "Go",
            "`server.Shutdown` does it for requests in flight; `server.SetKeepAlivesEnabled(false)` for all",
        ),
        (
            "Node",
            "`res.setHeader('Connection', 'close')` from the signal on",
        ),
        (
            "uvicorn",
            "does not say it, with h11 or httptools: a middleware that adds the header once the shutdown has begun, or a \
             proxy in front that does not reuse the connection",
        ),
        (
            "any proxy in front",
            "let it see the header: it must not reuse the connection",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const FLIGHTS: usize = 3;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.slow.is_none() {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = cx.start().await?;
    let Some(request) = cx.held(&run, Duration::from_millis(700)) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let requests = match cx.hold_open(&run, &request, cx.at_once(FLIGHTS)).await {
        Ok(requests) => requests,
        Err(finding) => return Ok(finding),
    };
    let signal = run.stop();
    let (mut told, mut untold) = (0, Vec::new());
    for in_flight in requests {
        // Whether it comes at all is the question of inflight-finishes.
        if let Ok(answer) = in_flight
            .finish(cx.idle_stop() + ANSWER_TIMEOUT)
            .await
            .result
        {
            if answer.head.keep_alive {
                let said = answer
                    .field("connection")
                    .map_or("no Connection field".to_owned(), |value| {
                        format!("Connection: {value}")
                    });
                untold.push(format!("an answer {} with {said}", answer.head.status));
            } else {
                told += 1;
            }
        }
    }
    cx.see_out(&run, signal).await;
    let total = told + untold.len();
    if total == 0 {
        return Ok(Finding::skipped(
            "no answer came after the signal; see inflight-finishes",
        ));
    }
    let measured = format!("{} of {total} without it", untold.len());
    if untold.len() as u64 > cx.threshold.count() {
        return Ok(Finding::failed(format!(
            "{} of {total} answers after the signal do not say `Connection: close`",
            untold.len()
        ))
        .shown(untold)
        .measured(measured));
    }
    Ok(Finding::passed(format!(
        "all {total} answers after the signal said `Connection: close`"
    ))
    .measured(measured))
}
