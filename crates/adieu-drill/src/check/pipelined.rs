//! Several requests in one breath.

use std::time::Duration;

use adieu_load::Request;

use super::{Spec, Trying};
use crate::arrival::Sent;
use crate::context::CheckContext;
use crate::endpoint::label;
use crate::expected::{ExpectedResponse, twice};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::Group;
use crate::running::RunningTarget;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "pipelined",
    group: Group::Drain,
    quick: false,
    why: "Proxies and some clients send the next request before the last is answered; what was sent before the stop is in \
          flight.",
    how: "Four requests are sent at once on one connection, the first to the slow path. The signal comes while that one is \
          being answered. All four must be answered whole and in order: each with the status and the bytes that the same \
          request had twice before any stop.",
    applies: "Needs a path that answers late (--slow), and a server that keeps connections.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "read what has arrived before an answer says `Connection: close`; only the last answer may say it",
        ),
        (
            "axum / hyper",
            "hyper says `close` on the response in flight and drops the rest: adieu's `app.http` looks first",
        ),
        (
            "clients",
            "a client that pipelines must be ready to send again what came after a `Connection: close`",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const REQUESTS: usize = 4;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let run = cx.start().await?;
    let Some(slow) = cx.held(&run, Duration::from_millis(300)) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let quick = run.endpoint.request();
    let patience = cx.idle_stop() + ANSWER_TIMEOUT;
    let before = tokio::try_join!(
        before_any_stop(&run, &slow, patience),
        before_any_stop(&run, &quick, ANSWER_TIMEOUT)
    );
    let (slow_before, quick_before) = match before {
        Ok(before) => before,
        Err(finding) => return Ok(finding),
    };
    let (first, other) = (slow.bytes(false), quick.bytes(false));
    let mut requests = vec![&first[..]];
    requests.resize(REQUESTS, &other[..]);
    let mut answered = 0;
    let mut wrong = Vec::new();
    let mut closing = None;
    let mut signal = None;
    let talk =
        async {
            let mut conn = run.connect().await?;
            conn.send_together(&requests).await?;
            run.one_arrives(Sent {
                from: conn.from,
                bytes: requests.concat().len() as u64,
            })
            .await;
            signal = Some(run.stop());
            while answered < REQUESTS {
                let answer = conn.answer_within(patience).await?;
                let (request, before) = match answered {
                    0 => (&slow, &slow_before),
                    _ => (&quick, &quick_before),
                };
                answered += 1;
                wrong.extend(before.wrong(&answer).map(|why| {
                    format!("answer {answered} of {REQUESTS}, {}: {why}", label(request))
                }));
                if !answer.head.keep_alive && closing.is_none() {
                    closing = Some(answered);
                }
            }
            Ok::<_, WireError>(())
        };
    let result = talk.await;
    if let Some(signal) = signal {
        cx.see_out(&run, signal).await;
    }
    let lost = REQUESTS - answered + wrong.len();
    let measured = format!("{lost} of {REQUESTS} lost");
    if lost == 0 {
        return Ok(Finding::passed(format!(
            "all {REQUESTS} requests sent together were answered, each as before the stop"
        ))
        .measured(measured));
    }
    if lost as u64 <= cx.threshold.count() {
        return Ok(Finding::passed(format!(
            "{} of {REQUESTS} requests sent together were answered",
            REQUESTS - lost
        ))
        .measured(measured));
    }
    let how = if wrong.is_empty() {
        "not answered"
    } else {
        "not answered, or not as before the stop"
    };
    let mut finding = Finding::failed(format!(
        "{lost} of {REQUESTS} requests sent together were {how}"
    ));
    finding.by_time = wrong.is_empty() && matches!(result, Err(WireError::TimedOut(_)));
    let broken = result.err();
    Ok(finding
        .shown(wrong)
        .shown(broken.map(|broken| format!("after {answered} answers: {broken}")))
        .shown(closing.map(|number| format!("answer {number} said `Connection: close`")))
        .measured(measured))
}

/// What a request is answered with alone, while the program runs.
async fn before_any_stop(
    run: &RunningTarget,
    request: &Request,
    patience: Duration,
) -> Result<ExpectedResponse, Finding> {
    let cannot = |why: String| {
        let name = label(request);
        Finding::skipped(format!("before any stop, {name}: {why}"))
    };
    let answers = twice(|| RawConn::ask_within(&run.endpoint, request, patience)).await;
    let answers = answers.map_err(|broken| cannot(broken.to_string()))?;
    if let Some(answer) = answers.iter().find(|answer| answer.head.status >= 400) {
        return Err(cannot(format!("answered {}", answer.head.status)));
    }
    ExpectedResponse::of(&answers).ok_or_else(|| cannot("no answer to compare with".to_owned()))
}
