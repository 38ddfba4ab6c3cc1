//! An answer that comes in pieces, across the signal.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::{Spec, Trying};
use crate::context::{CheckContext, Opened};
use crate::expected::ExpectedResponse;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, Answer, WireError};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "stream-whole",
    group: Group::Drain,
    quick: false,
    why: "A download that is streamed must arrive to its end, or the client must notice: one that ends early as if it \
          were whole is corruption.",
    how: "The streaming path is asked and begins to answer; then the signal comes. The rest must arrive: in the right \
          framing, and the same bytes as twice before, more than a second apart, save for the value of a number; as \
          long as before, if they differed by themselves.",
    applies: "Needs a path that streams for a second or so and ends: --stream PATH, or found at /stream. Skipped if the \
              answer is whole before the signal.",
    threshold: |_| Threshold::Count(0, "streams lost"),
    hints: &[
        (
            "any",
            "a stream is in flight until its end; a loop that looks at a stop flag must not end the stream as if it \
                 were whole",
        ),
        (
            "axum / hyper",
            "handled by `graceful_shutdown` within the grace; do not select the stop against the body",
        ),
        (
            "uvicorn / Starlette",
            "`StreamingResponse` is finished unless `--timeout-graceful-shutdown` cuts it",
        ),
        ("Node", "`server.close` waits for it"),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

/// What takes no longer than this does not stream.
const SHORTEST_STREAM: Duration = Duration::from_millis(50);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.stream else {
        return Ok(Finding::skipped(
            "no path that streams was found; give one with --stream PATH",
        ));
    };
    let Opened {
        run,
        endpoint,
        path,
    } = cx.open(path).await?;
    let request = endpoint.request();
    let reference = match ExpectedResponse::ask(&endpoint, path).await {
        Ok(reference) => reference,
        Err(finding) => return Ok(finding),
    };
    let mut signal = None;
    let read = async {
        let mut conn = run.connect().await?;
        conn.send(&request.bytes(false)).await?;
        let head = timeout(ANSWER_TIMEOUT, conn.head()).await;
        let head = head.map_err(|_| conn.timed_out())?;
        let (head, text) = head.map_err(|error| conn.broken(error))?;
        let body = {
            let mut body = pin!(conn.body(head.body));
            match timeout(SHORTEST_STREAM, &mut body).await {
                Ok(early) => Ok(early),
                Err(_) => {
                    signal = Some(run.stop());
                    timeout(ANSWER_TIMEOUT * 3, body).await
                }
            }
        };
        let body = body.map_err(|_| conn.timed_out())?;
        let body = body.map_err(|error| conn.broken(error))?;
        Ok::<_, WireError>(Answer { head, text, body })
    };
    let read = read.await;
    let Some(signal) = signal else {
        return Ok(match read {
            Ok(answer) => Finding::skipped(format!(
                "the {} bytes of {path} were whole before the signal; give a path that streams for a second or so with \
                 --stream PATH",
                answer.body.length
            )),
            Err(broken) => Finding::failed(format!("{path} fails before any stop: {broken}")),
        });
    };
    cx.see_out(&run, signal).await;
    Ok(match read {
        Ok(answer) => match reference.wrong(&answer) {
            None => Finding::passed(format!(
                "a stream of {} bytes came to its end, whole {reference}",
                answer.body.length
            ))
            .measured("0 of 1 lost"),
            Some(wrong) => cx.one_lost(
                Finding::failed("a stream ended early as if it were whole")
                    .shown([format!("GET {path}: {wrong}")]),
            ),
        },
        Err(broken) => cx.one_lost(
            match broken {
                WireError::TimedOut(_) => {
                    Finding::late("a response stream in flight did not come to its end")
                }
                _ => Finding::failed("a response stream in flight was cut"),
            }
            .shown([format!("GET {path}: {broken}")])
            .shown(run.last_lines(3)),
        ),
    })
}
