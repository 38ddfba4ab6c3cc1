//! A client that is slow to read its answer.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Spec, Trying};
use crate::capabilities::LARGE;
use crate::context::{CheckContext, Opened};
use crate::expected::ExpectedResponse;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "slow-reader",
    group: Group::Drain,
    quick: false,
    why: "An answer is not delivered when it is written but when it is read; a process that ends too early takes the rest \
          with it.",
    how: "A large answer is begun and read a little, through a small window. The signal comes, nothing is read for a \
          second longer than an idle stop takes, and then the rest. It must be whole, and the same as \
          two answers before, more than a second apart; as long as they are, if they differ by themselves.",
    applies: "Needs a path with a large answer: --large PATH, or found at /large or /big; the streaming path otherwise. \
              Skipped if the answer is so small that the buffers of a connection take it whole.",
    threshold: |_| Threshold::Count(0, "answers lost"),
    hints: &[
        (
            "any",
            "wait until the last byte is written and the connection is shut down in order; a close with unread data \
                 resets it",
        ),
        (
            "axum / hyper",
            "handled by `graceful_shutdown` within the grace",
        ),
        (
            "Go",
            "`server.Shutdown` waits for it; `server.Close` does not",
        ),
        (
            "Node",
            "end with `server.close` calling back, not with `process.exit` at the signal",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const WINDOW: u32 = 16 << 10;
const READ_PAUSE: Duration = Duration::from_secs(1);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.large else {
        return Ok(Finding::skipped(
            "no path with a large answer was found; give one with --large PATH",
        ));
    };
    let Opened {
        run,
        endpoint,
        path,
    } = cx.open(path).await?;
    let request = endpoint.request();
    let reference = match ExpectedResponse::ask(&endpoint, path).await {
        Ok(reference) => reference.counting_numbers(),
        Err(finding) => return Ok(finding),
    };
    if reference.length() <= LARGE {
        return Ok(Finding::skipped(format!(
            "the {} bytes of {path} fit into the buffers of a connection, so the program does not have to wait for a slow reader; give \
             a path with more than {LARGE} bytes with --large PATH",
            reference.length()
        )));
    }
    let mut signal = None;
    let read = async {
        let mut conn = RawConn::open(&endpoint.target().window(WINDOW)).await?;
        conn.send(&request.bytes(false)).await?;
        conn.more()
            .await
            .map_err(|error| WireError::new(error, true, 0))?;
        signal = Some(run.stop());
        sleep(cx.hold_time(READ_PAUSE)).await;
        conn.answer_within(ANSWER_TIMEOUT * 3).await
    };
    let result = timeout(cx.idle_stop() + ANSWER_TIMEOUT * 4, read).await;
    if let Some(signal) = signal {
        cx.see_out(&run, signal).await;
    }
    let (why, by_time) = match result {
        Ok(Ok(answer)) => match reference.wrong(&answer) {
            None => {
                return Ok(Finding::passed(format!(
                    "an answer of {} bytes came to a slow reader, whole {reference}",
                    reference.length()
                ))
                .measured("0 of 1 lost"));
            }
            Some(wrong) => (wrong, false),
        },
        Ok(Err(broken)) => (broken.to_string(), matches!(broken, WireError::TimedOut(_))),
        Err(_) => ("nothing more came".to_owned(), true),
    };
    let mut finding = Finding::failed("the answer to a slow reader was lost");
    finding.by_time = by_time;
    let finding = finding.shown([format!("GET {path}: {why}")]);
    Ok(cx.one_lost(finding.shown(run.last_lines(3))))
}
