//! Readiness turns off before the listener closes.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Spec, Trying};
use crate::context::{CheckContext, Opened};
use crate::endpoint::{Endpoint, label};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::{Group, Mark, MarkKind, Outcome, StopTimeline};
use crate::stop_log;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "ready-before-close",
    group: Group::Readiness,
    quick: false,
    why: "A load balancer goes on sending until readiness says no; if the port closes first, all it sends meanwhile is \
          refused.",
    how: "The readiness probe and the port are tried every 20 ms after the signal. A probe must say no (anything but 2xx) \
          before the first new connection is refused.",
    applies: "Needs a readiness probe: --readiness PATH or URL, or found at /readyz, /ready or /health/ready.",
    threshold: |_| Threshold::AtLeast(Duration::ZERO),
    hints: &[
        (
            "adieu",
            "`service.lame_duck(duration)`: readiness is off and the port open for that long",
        ),
        (
            "Kubernetes",
            "a `preStop` sleep of a few seconds does the same from outside, if readiness is on another port",
        ),
        (
            "any",
            "at the signal set readiness off, wait for two probe periods, and only then close the listener",
        ),
        (
            "Go",
            "a handler that looks at an atomic flag, and a sleep before `server.Shutdown`",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const PROBE_INTERVAL: Duration = Duration::from_millis(20);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Two things that happen together are seen in any order, on two ports.
const SAME_INSTANT: Duration = Duration::from_millis(250);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.readiness else {
        return Ok(Finding::skipped(
            "no readiness probe was found; give it with --readiness PATH",
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
    let held = cx.hold_beside(&run, Duration::from_millis(1_000)).await;
    let signal = run.stop();
    let until = signal + cx.idle_stop() + ANSWER_TIMEOUT;
    let mut looks = JoinSet::new();
    let (mut off, mut closed) = (None::<Instant>, None::<Instant>);
    while Instant::now() < until && closed.is_none_or(|at| at.elapsed() < SAME_INSTANT) {
        looks.spawn(look(probe.clone(), run.endpoint.clone()));
        sleep(PROBE_INTERVAL).await;
        while let Some(Ok(look)) = looks.try_join_next() {
            off = earlier(off, look.off);
            closed = earlier(closed, look.closed);
        }
    }
    while let Some(Ok(look)) = looks.join_next().await {
        off = earlier(off, look.off);
        closed = earlier(closed, look.closed);
    }
    drop(held);
    let ended = cx.see_out(&run, signal).await;
    let mut marks = stop_log::marks(signal, cx.drill.signal.name(), ended);
    for (at, kind) in [
        (off, MarkKind::ReadinessOff),
        (closed, MarkKind::ListenerClosed),
    ] {
        marks.extend(at.map(|at| Mark {
            at_us: stop_log::micros(at, signal),
            kind,
            label: String::new(),
        }));
    }
    cx.log.draw(stop_log::complete(StopTimeline {
        check: cx.spec.id.to_owned(),
        run: cx.run,
        marks,
        ..StopTimeline::default()
    }));

    let after = |at: Instant| show(at.saturating_duration_since(signal));
    // On one port the answer itself came from the listener that was still open.
    let slack = if probe.address == run.endpoint.address {
        Duration::ZERO
    } else {
        SAME_INSTANT
    };
    let wanted = cx.threshold.time();
    let told =
        |at: Option<Instant>| at.map_or("never".to_owned(), |at| format!("after {}", after(at)));
    let evidence = [
        format!(
            "the first no of {} came {}",
            label(&probe.request()),
            told(off)
        ),
        format!(
            "the first refusal at {} came {}",
            run.endpoint.address,
            told(closed)
        ),
        format!("the program ended {}", told(ended.map(|ended| ended.at))),
    ];
    let finding = match (off, closed) {
        (Some(off), Some(closed)) if off + wanted <= closed + slack => {
            let lead = show(closed.saturating_duration_since(off));
            Finding::passed(format!(
                "readiness was off {} after the signal, the port closed after {}",
                after(off),
                after(closed)
            ))
            .measured(lead)
        }
        (Some(off), None) => {
            Finding::passed(format!("readiness was off {} after the signal", after(off)))
        }
        (Some(off), Some(closed)) => Finding::late(format!(
            "readiness was off {} after the signal, but the port closed after {}",
            after(off),
            after(closed)
        )),
        (None, Some(closed)) => Finding::late(format!(
            "readiness never said no before the port closed, {} after the signal",
            after(closed)
        )),
        (None, None) => Finding::late(format!(
            "readiness still says yes {} after the signal",
            show(signal.elapsed())
        )),
    };
    Ok(if finding.outcome == Outcome::Failed {
        finding.shown(evidence)
    } else {
        finding
    })
}

fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(two).min()
}

struct Look {
    off: Option<Instant>,
    closed: Option<Instant>,
}

/// One look at both.
async fn look(probe: Endpoint, endpoint: Endpoint) -> Look {
    let asked = RawConn::ask_within(&probe, &probe.request(), PROBE_TIMEOUT).await;
    let answered = Instant::now();
    let off = matches!(&asked, Ok(answer) if !(200..300).contains(&answer.head.status));
    let refused = if probe.address == endpoint.address {
        matches!(asked, Err(WireError::Refused))
    } else {
        let connecting =
            tokio::time::timeout(PROBE_TIMEOUT, RawConn::open(&endpoint.plain())).await;
        matches!(connecting, Ok(Err(WireError::Refused)))
    };
    Look {
        off: off.then_some(answered),
        closed: refused.then(Instant::now),
    }
}
