//! Whoever drains is alive.

use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::without_query;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::{Threshold, show};
use crate::wire::{Broken, Wire};

pub(crate) const SPEC: Spec = Spec {
    id: "live-while-draining",
    group: Group::Readiness,
    quick: false,
    why: "A liveness probe that says no during the drain has the program killed in the middle of it.",
    how: "While a slow request holds the drain open, the liveness probe is asked every 50 ms. It must never answer \
          anything but 2xx, never be silent, and never be cut. On a port of its own it must be there until the drain is \
          over, neither refused nor closed; on the port of the service it may be sent away once that is closed, which \
          is the matter of other checks.",
    applies: "Needs a liveness probe: --liveness PATH or URL, or found at /livez, /healthz, /live or /health/live.",
    threshold: |_| Threshold::Count(0, "probes failed"),
    hints: &[
        (
            "adieu",
            "`app.admin(address)` answers on a port of its own to the end",
        ),
        (
            "any",
            "liveness says whether the process works, not whether it wants traffic: that is readiness",
        ),
        ("Kubernetes", "do not point both probes at the same path"),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const PACE: Duration = Duration::from_millis(50);
const GLANCE: Duration = Duration::from_secs(3);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let Some(path) = &stage.found.liveness else {
        return Ok(Finding::skipped(
            "no liveness probe was found; give it with --liveness PATH",
        ));
    };
    let run = stage.start().await?;
    let probe = run
        .place
        .at(&run.subject.blanks.fill(path))
        .map_err(crate::CannotDrill::Usage)?;
    let path = without_query(path);
    match Wire::ask_within(&probe, &probe.request(), PATIENCE).await {
        Ok(answer) if (200..300).contains(&answer.head.status) => {}
        Ok(answer) => {
            return Ok(Finding::skipped(format!(
                "{path} answers {} before any stop",
                answer.head.status
            )));
        }
        Err(broken) => {
            return Ok(Finding::skipped(format!(
                "{path} cannot be asked: {broken}"
            )));
        }
    }
    let own_port = probe.address != run.place.address;
    let mut held = Vec::new();
    if let Some(request) = stage.held(&run, Duration::from_millis(1_000)) {
        held = run.in_flight(&request, 1).await.unwrap_or_default();
    }
    let signal = run.stop();
    let patience = stage.idle_stop() + PATIENCE;
    let holding = held.pop().map(|flight| tokio::spawn(flight.land(patience)));
    let mut looks = JoinSet::new();
    while signal.elapsed() < patience
        && run.subject.ended().is_none()
        && !holding.as_ref().is_some_and(JoinHandle::is_finished)
    {
        let probe = probe.clone();
        looks.spawn(async move {
            let at = Instant::now();
            (at, Wire::ask_within(&probe, &probe.request(), GLANCE).await)
        });
        sleep(PACE).await;
    }
    // The answer and the end of the program often fall between two looks, so neither is dated by them.
    let answered = match holding {
        Some(task) => task.await.ok().map(|landed| landed.ended),
        None => None,
    };
    let exit = run.subject.ended().map(|ended| ended.at);
    let over = answered.map(|at| exit.map_or(at, |exit| exit.min(at)));
    let held_at = |at: Instant| over.is_some_and(|over| at + PACE * 4 < over);
    let (mut asked, mut bad, mut by_time) = (0, Vec::new(), true);
    while let Some(Ok((at, result))) = looks.join_next().await {
        asked += 1;
        let wrong = match result {
            Ok(answer) if (200..300).contains(&answer.head.status) => continue,
            Ok(answer) => {
                by_time = false;
                format!("answered {}", answer.head.status)
            }
            Err(Broken::TimedOut(_)) => "silent".to_owned(),
            // On the port of the service newcomers may be sent away, but what was begun is to be finished.
            Err(broken) if held_at(at) && (own_port || matches!(broken, Broken::Truncated(..))) => {
                by_time = false;
                broken.to_string()
            }
            Err(_) => continue,
        };
        bad.push((
            at,
            format!("{} after the signal: {wrong}", show(at - signal)),
        ));
    }
    stage.see_out(&run, signal).await;
    bad.sort_by_key(|(at, _)| *at);
    let measured = format!("{} of {asked} failed", bad.len());
    if bad.len() as u64 > stage.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{} of {asked} liveness probes failed while it drained",
            bad.len()
        ));
        finding.by_time = by_time;
        return Ok(finding
            .shown(bad.into_iter().take(5).map(|(_, words)| words))
            .measured(measured));
    }
    Ok(Finding::passed(format!(
        "{asked} liveness probes while it drained, and none said no"
    ))
    .measured(measured))
}
