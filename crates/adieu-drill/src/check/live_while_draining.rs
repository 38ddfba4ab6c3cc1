//! Liveness stays on while the program drains.

use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::{Spec, Trying};
use crate::context::{CheckContext, Opened};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::Group;
use crate::threshold::{Threshold, show};

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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const PROBE_INTERVAL: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.liveness else {
        return Ok(Finding::skipped(
            "no liveness probe was found; give it with --liveness PATH",
        ));
    };
    let Opened {
        run,
        endpoint: probe,
        ..
    } = match cx.open_probe(path).await? {
        Ok(opened) => opened,
        Err(finding) => return Ok(finding),
    };
    let own_port = probe.address != run.endpoint.address;
    let held = cx.hold_beside(&run, Duration::from_millis(1_000)).await;
    let signal = run.stop();
    let patience = cx.idle_stop() + ANSWER_TIMEOUT;
    let holding = held.map(|in_flight| tokio::spawn(in_flight.finish(patience)));
    let mut looks = JoinSet::new();
    while signal.elapsed() < patience
        && run.process.ended().is_none()
        && !holding.as_ref().is_some_and(JoinHandle::is_finished)
    {
        let probe = probe.clone();
        looks.spawn(async move {
            let at = Instant::now();
            (
                at,
                RawConn::ask_within(&probe, &probe.request(), PROBE_TIMEOUT).await,
            )
        });
        sleep(PROBE_INTERVAL).await;
    }
    // The answer and the end of the program often fall between two looks, so neither is dated by them.
    let answered = match holding {
        Some(task) => task.await.ok().map(|finished| finished.ended),
        None => None,
    };
    let exit = run.process.ended().map(|ended| ended.at);
    let over = answered.map(|at| exit.map_or(at, |exit| exit.min(at)));
    let held_at = |at: Instant| over.is_some_and(|over| at + PROBE_INTERVAL * 4 < over);
    let (mut asked, mut bad, mut by_time) = (0, Vec::new(), true);
    while let Some(Ok((at, result))) = looks.join_next().await {
        asked += 1;
        let wrong = match result {
            Ok(answer) if (200..300).contains(&answer.head.status) => continue,
            Ok(answer) => {
                by_time = false;
                format!("answered {}", answer.head.status)
            }
            Err(WireError::TimedOut(_)) => "silent".to_owned(),
            // On the port of the service newcomers may be sent away, but what was begun is to be finished.
            Err(broken)
                if held_at(at) && (own_port || matches!(broken, WireError::Truncated(..))) =>
            {
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
    cx.see_out(&run, signal).await;
    bad.sort_by_key(|(at, _)| *at);
    let measured = format!("{} of {asked} failed", bad.len());
    if bad.len() as u64 > cx.threshold.count() {
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
