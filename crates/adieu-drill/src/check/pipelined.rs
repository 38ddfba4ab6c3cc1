//! Several requests in one breath.

use std::time::Duration;

use adieu_load::Request;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::label;
use crate::reference::{Reference, twice};
use crate::report::Group;
use crate::stage::{PATIENCE, Run, Stage};
use crate::threshold::Threshold;
use crate::wire::{Broken, Wire};

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
            "hyper says `close` on the answer under way and drops the rest: adieu's `app.http` looks first",
        ),
        (
            "clients",
            "a client that pipelines must be ready to send again what came after a `Connection: close`",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const REQUESTS: usize = 4;

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let run = stage.start().await?;
    let Some(slow) = stage.held(&run, Duration::from_millis(300)) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let quick = run.place.request();
    let patience = stage.idle_stop() + PATIENCE;
    let before = tokio::try_join!(
        before_any_stop(&run, &slow, patience),
        before_any_stop(&run, &quick, PATIENCE)
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
            let mut wire = run.wire().await?;
            wire.send_together(&requests).await?;
            run.let_arrive().await;
            signal = Some(run.stop());
            while answered < REQUESTS {
                let answer = wire.answer_within(patience).await?;
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
            Ok::<_, Broken>(())
        };
    let result = talk.await;
    if let Some(signal) = signal {
        stage.see_out(&run, signal).await;
    }
    let lost = REQUESTS - answered + wrong.len();
    let measured = format!("{lost} of {REQUESTS} lost");
    if lost == 0 {
        return Ok(Finding::passed(format!(
            "all {REQUESTS} requests sent together were answered, each as before the stop"
        ))
        .measured(measured));
    }
    if lost as u64 <= stage.threshold.count() {
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
    finding.by_time = wrong.is_empty() && matches!(result, Err(Broken::TimedOut(_)));
    let broken = result.err();
    Ok(finding
        .shown(wrong)
        .shown(broken.map(|broken| format!("after {answered} answers: {broken}")))
        .shown(closing.map(|number| format!("answer {number} said `Connection: close`")))
        .measured(measured))
}

/// What a request is answered with alone, while the program runs.
async fn before_any_stop(
    run: &Run,
    request: &Request,
    patience: Duration,
) -> Result<Reference, Finding> {
    let cannot = |why: String| {
        let name = label(request);
        Finding::skipped(format!("before any stop, {name}: {why}"))
    };
    let answers = twice(|| Wire::ask_within(&run.place, request, patience)).await;
    let answers = answers.map_err(|broken| cannot(broken.to_string()))?;
    if let Some(answer) = answers.iter().find(|answer| answer.head.status >= 400) {
        return Err(cannot(format!("answered {}", answer.head.status)));
    }
    Reference::of(&answers).ok_or_else(|| cannot("no answer to compare with".to_owned()))
}
