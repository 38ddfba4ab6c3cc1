//! The load balancer hears of the stop before the door shuts.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::{Place, label, without_query};
use crate::record;
use crate::report::{Group, Mark, MarkKind, Outcome, StopTimeline};
use crate::stage::{PATIENCE, Stage};
use crate::threshold::{Threshold, show};
use crate::wire::{Broken, Wire};

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
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const PACE: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_secs(3);
/// Two things that happen together are seen in any order, on two ports.
const TOGETHER: Duration = Duration::from_millis(250);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let Some(path) = &stage.found.readiness else {
        return Ok(Finding::skipped(
            "no readiness probe was found; give it with --readiness PATH",
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
    let mut held = Vec::new();
    if let Some(request) = stage.held(&run, Duration::from_millis(1_000)) {
        held = run.in_flight(&request, 1).await.unwrap_or_default();
    }
    let signal = run.stop();
    let until = signal + stage.idle_stop() + PATIENCE;
    let mut looks = JoinSet::new();
    let (mut off, mut closed) = (None::<Instant>, None::<Instant>);
    while Instant::now() < until && closed.is_none_or(|at| at.elapsed() < TOGETHER) {
        looks.spawn(look(probe.clone(), run.place.clone()));
        sleep(PACE).await;
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
    let ended = stage.see_out(&run, signal).await;
    let mut marks = record::marks(signal, stage.drill.signal.name(), ended);
    for (at, kind) in [
        (off, MarkKind::ReadinessOff),
        (closed, MarkKind::ListenerClosed),
    ] {
        marks.extend(at.map(|at| Mark {
            at_us: record::micros(at, signal),
            kind,
            label: String::new(),
        }));
    }
    stage.record.draw(record::complete(StopTimeline {
        check: stage.spec.id.to_owned(),
        run: stage.run,
        marks,
        ..StopTimeline::default()
    }));

    let after = |at: Instant| show(at.saturating_duration_since(signal));
    // On one port the answer itself came through the open door.
    let slack = if probe.address == run.place.address {
        Duration::ZERO
    } else {
        TOGETHER
    };
    let wanted = stage.threshold.time();
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
            run.place.address,
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
async fn look(probe: Place, place: Place) -> Look {
    let asked = Wire::ask_within(&probe, &probe.request(), GLANCE).await;
    let answered = Instant::now();
    let off = matches!(&asked, Ok(answer) if !(200..300).contains(&answer.head.status));
    let refused = if probe.address == place.address {
        matches!(asked, Err(Broken::Refused))
    } else {
        let connecting = tokio::time::timeout(GLANCE, Wire::open(&place.plain())).await;
        matches!(connecting, Ok(Err(Broken::Refused)))
    };
    Look {
        off: off.then_some(answered),
        closed: refused.then(Instant::now),
    }
}
