//! A client that is still sending when the stop comes.

use std::time::Duration;

use tokio::time::sleep;

use super::{Spec, Trying};
use crate::capabilities::upload;
use crate::context::{CheckContext, Opened};
use crate::expected::{ExpectedResponse, twice};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, WireError};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "slow-upload",
    group: Group::Drain,
    quick: false,
    why: "A phone on a bad network sends for many seconds; an upload that was begun must not be thrown away.",
    how: "Half of a body of 64 KiB is sent before the signal, the rest in small pieces after it. The answer must be whole \
          and as it was for two such uploads before any stop, more than a second apart: fewer bytes counted are bytes lost.",
    applies: "Needs a path that takes a body with POST: --upload PATH, or found at /upload.",
    threshold: |_| Threshold::Count(0, "uploads lost"),
    hints: &[
        (
            "any",
            "a request whose head was read counts as in flight until its body is read and answered",
        ),
        (
            "axum / hyper",
            "handled by `graceful_shutdown`, as long as the grace is longer than your slowest upload",
        ),
        (
            "uvicorn",
            "handled, unless `--timeout-graceful-shutdown` cuts it",
        ),
        (
            "Node",
            "`server.close()` waits for it; do not call `closeAllConnections()` at once",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const BODY: usize = 64 << 10;
const PIECES: usize = 8;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.upload else {
        return Ok(Finding::skipped(
            "no path that takes an upload was found; give one with --upload PATH",
        ));
    };
    let Opened {
        run,
        endpoint,
        path,
    } = cx.open(path).await?;
    let bytes = upload(&endpoint.request(), vec![b'a'; BODY]).bytes(false);
    let whole = async || {
        let mut conn = run.connect().await?;
        conn.send(&bytes).await?;
        conn.answer_within(ANSWER_TIMEOUT).await
    };
    let answers = match twice(whole).await {
        Ok(answers) => answers,
        Err(broken) => {
            return Ok(Finding::skipped(format!(
                "{path} takes no upload before any stop: {broken}"
            )));
        }
    };
    if let Some(answer) = answers.iter().find(|answer| answer.head.status >= 400) {
        return Ok(Finding::skipped(format!(
            "{path} answers {} to an upload before any stop; give a path that takes one with --upload PATH",
            answer.head.status
        )));
    }
    let Some(reference) = ExpectedResponse::of(&answers).map(ExpectedResponse::counting_numbers)
    else {
        return Ok(Finding::skipped("no answer to compare with"));
    };
    let (early, late) = bytes.split_at(bytes.len() - BODY / 2);
    // Not longer than a drain that always lasts the same time.
    let pause = cx.hold_time(Duration::from_millis(600)) / PIECES as u32;
    let mut signal = None;
    let sent = async {
        let mut conn = run.connect().await?;
        conn.send_part(early).await?;
        run.let_arrive().await;
        signal = Some(run.stop());
        for piece in late.chunks(late.len() / PIECES) {
            sleep(pause).await;
            conn.send_rest(piece).await?;
        }
        conn.answer_within(ANSWER_TIMEOUT).await
    };
    let lost = |why: String| {
        Finding::failed("an upload in flight was lost").shown([format!("POST {path}: {why}")])
    };
    let sent = sent.await;
    if let Some(signal) = signal {
        cx.see_out(&run, signal).await;
    }
    Ok(match sent {
        Ok(answer) => match reference.wrong(&answer) {
            None => Finding::passed(format!(
                "an upload in flight was finished and answered {}, whole {reference}",
                answer.head.status
            ))
            .measured("0 of 1 lost"),
            Some(wrong) => cx.one_lost(lost(wrong)),
        },
        Err(broken) => {
            let mut finding = lost(broken.to_string());
            finding.by_time = matches!(broken, WireError::TimedOut(_));
            cx.one_lost(finding.shown(run.last_lines(3)))
        }
    })
}
