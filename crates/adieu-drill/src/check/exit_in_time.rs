//! How long a stop takes, idle and loaded.

use std::time::Duration;

use super::{Spec, Trying, race};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::report::Group;
use crate::stop_log::{Exit, LoadKind};
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "exit-in-time",
    group: Group::Exit,
    quick: true,
    why: "A program that is not gone when the platform's patience ends is killed, with whatever it was doing.",
    how: "Several stops, idle and under load, are timed from the signal to the end of the process; the stops of other \
          checks under load count too. Each must be within the grace period, or what was set.",
    applies: "Always.",
    threshold: |drill| Threshold::Time(drill.grace),
    hints: &[
        (
            "any",
            "give every step of the stop a deadline that together is shorter than the platform's: docker 10 s, \
                 Kubernetes 30 s, systemd 90 s",
        ),
        (
            "uvicorn",
            "`--timeout-graceful-shutdown SECONDS`; without it a request can hold the exit forever",
        ),
        ("gunicorn", "`--graceful-timeout SECONDS`"),
        (
            "Node",
            "a timer that is unref'd and calls `process.exit` when the drain takes too long",
        ),
        ("Go", "`context.WithTimeout` around `server.Shutdown`"),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let endless = |cx: &CheckContext<'_>| counted(cx).any(|exit| exit.end.is_none());
    if !endless(cx) {
        for _ in 0..cx.times(1, 2, 4) {
            let run = cx.start().await?;
            let signal = run.stop();
            cx.see_end(&run, signal, LoadKind::Idle).await;
            run.process.kill().await;
        }
        if !counted(cx).any(|exit| exit.with == LoadKind::Load) {
            // Whether something is lost is another check's question.
            let _ = race::once(cx, race::usual(cx)).await?;
        }
    }
    let limit = cx.threshold.time();
    let of = |with: LoadKind| counted(cx).filter(move |exit| exit.with == with);
    let mut evidence = Vec::new();
    for (with, words) in [(LoadKind::Idle, "idle"), (LoadKind::Load, "loaded")] {
        let mut times: Vec<Duration> = of(with).filter_map(|exit| Some(exit.end?.0)).collect();
        times.sort_unstable();
        if let [first, .., last] | [first @ last] = times[..] {
            evidence.push(format!(
                "{words}: {} stops, fastest {}, middle {}, slowest {}",
                times.len(),
                show(first),
                show(times[times.len() / 2]),
                show(last)
            ));
        }
        let killed = of(with).filter(|exit| exit.end.is_none()).count();
        if killed > 0 {
            evidence.push(format!(
                "{words}: {killed} had to be killed after {}",
                show(cx.drill.grace)
            ));
        }
    }
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle().shown(evidence));
    }
    if endless(cx) {
        return Ok(Finding::late(format!("it {}", cx.never_ended()))
            .shown(evidence)
            .measured("killed"));
    }
    let times = counted(cx).filter_map(|exit| Some(exit.end?.0));
    let worst = times.max().unwrap_or_default();
    if worst > limit {
        return Ok(Finding::late(format!("a stop took {}", show(worst)))
            .shown(evidence)
            .measured(show(worst)));
    }
    let count = counted(cx).count();
    Ok(
        Finding::passed(format!("the slowest of {count} stops took {}", show(worst)))
            .shown(evidence)
            .measured(show(worst)),
    )
}

/// The stops that nothing was held against. The others are judged by the checks that held it.
fn counted<'a>(cx: &'a CheckContext<'_>) -> impl Iterator<Item = &'a Exit> {
    let exits = cx.log.exits.iter();
    exits.filter(|exit| exit.with != LoadKind::Hold)
}
