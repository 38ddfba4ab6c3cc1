//! Several requests in one breath.

use std::time::Duration;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;
use crate::wire::Broken;

pub(crate) const SPEC: Spec = Spec {
    id: "pipelined",
    group: Group::Drain,
    quick: false,
    why: "Proxies and some clients send the next request before the last is answered; what was sent before the stop is in \
          flight.",
    how: "Four requests are sent at once on one connection, the first to the slow path. The signal comes while that one is \
          being answered. All four must be answered whole and in order.",
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
    let mut bytes = slow.bytes(false);
    let quick = run.place.request().bytes(false);
    for _ in 1..REQUESTS {
        bytes.extend(&quick);
    }
    let mut answered = 0;
    let mut closing = None;
    let mut signal = None;
    let talk = async {
        let mut wire = run.wire().await?;
        wire.send(&bytes).await?;
        run.let_arrive().await;
        signal = Some(run.stop());
        while answered < REQUESTS {
            let answer = wire.answer_within(stage.idle_stop() + PATIENCE).await?;
            answered += 1;
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
    let lost = REQUESTS - answered;
    let measured = format!("{lost} of {REQUESTS} lost");
    Ok(match result {
        Ok(()) => Finding::passed(format!(
            "all {REQUESTS} requests sent together were answered"
        ))
        .measured(measured),
        Err(_) if lost as u64 <= stage.threshold.count() => Finding::passed(format!(
            "{answered} of {REQUESTS} requests sent together were answered"
        ))
        .measured(measured),
        Err(broken) => {
            let mut finding = Finding::failed(format!(
                "{lost} of {REQUESTS} requests sent together were not answered"
            ));
            finding.by_time = matches!(broken, Broken::TimedOut(_));
            finding
                .shown([format!("after {answered} answers: {broken}")])
                .shown(closing.map(|number| format!("answer {number} said `Connection: close`")))
                .measured(measured)
        }
    })
}
