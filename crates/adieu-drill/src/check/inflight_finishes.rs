//! What was begun before the stop is finished.

use std::time::Duration;

use adieu_load::Request;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::label;
use crate::record;
use crate::reference::{Reference, twice};
use crate::report::{Fate, Group, StopTimeline};
use crate::stage::{PATIENCE, Run, Stage};
use crate::threshold::Threshold;
use crate::wire::Answer;

pub(crate) const SPEC: Spec = Spec {
    id: "inflight-finishes",
    group: Group::Drain,
    quick: true,
    why: "A request that was accepted before the stop is somebody's order; a deployment must not drop it.",
    how: "Several requests to the slow path are in flight when the signal comes, and outlast whatever the program does \
          before it drains. Every one must be answered whole, with the status of the same request answered several \
          times before, over more than a second (of the same class, and never 5xx: what was accepted cannot be sent \
          elsewhere any more), and with its bytes, save for the value of a number, which may be a clock; with its \
          length, give or take a number, if the bytes differ each time.",
    applies: "Needs a path that answers late: --slow \"/slow?ms={ms}\", or found at /slow?ms=, /sleep?ms= or /delay?ms=.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "axum",
            "`axum::serve(..).with_graceful_shutdown(signal)`, or adieu's `app.http(listener, router)`",
        ),
        (
            "uvicorn",
            "handles it; check `--timeout-graceful-shutdown` is not shorter than your slowest request",
        ),
        (
            "gunicorn",
            "SIGTERM is graceful, SIGQUIT and SIGINT are not; raise `--graceful-timeout`",
        ),
        (
            "Node",
            "`process.on('SIGTERM', () => server.close(() => process.exit(0)))`, never `process.exit()` at once",
        ),
        (
            "Go",
            "`server.Shutdown(ctx)` and wait for it to return before `main` does",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const FLIGHTS: usize = 4;
/// How much later than the drain begins the answers are due.
const BEYOND: Duration = Duration::from_millis(700);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if stage.found.slow.is_none() {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = stage.start().await?;
    let Some(request) = stage.held(&run, BEYOND) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let late = stage.idle_stop() + BEYOND + PATIENCE;
    let answers = match twice(|| before_any_stop(stage, &run, &request, late)).await {
        Ok(answers) => answers.concat(),
        Err(finding) => return Ok(finding),
    };
    let Some(reference) = Reference::of(&answers) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };

    let flights = match stage.hold_open(&run, &request, FLIGHTS).await {
        Ok(flights) => flights,
        Err(finding) => return Ok(finding),
    };
    let signal = run.stop();
    let mut landed = Vec::new();
    for flight in flights {
        landed.push(flight.land(late.min(stage.drill.grace + PATIENCE)).await);
    }
    let ended = stage.see_out(&run, signal).await;
    let bars = landed
        .iter()
        .zip(0..)
        .map(|(landed, number)| landed.bar(signal, number));
    let stop = StopTimeline {
        check: stage.spec.id.to_owned(),
        run: stage.run,
        marks: record::marks(signal, stage.drill.signal.name(), ended),
        requests: bars.collect(),
        omitted: 0,
    };
    stage.record.draw(record::complete(stop));

    let mut evidence = Vec::new();
    let mut by_time = true;
    for (landed, number) in landed.iter().zip(1..) {
        let wrong = match &landed.result {
            Ok(answer) => reference.wrong(answer),
            Err(broken) => Some(broken.to_string()),
        };
        if let Some(wrong) = wrong {
            by_time &= landed.fate() == Fate::TimedOut;
            evidence.push(format!(
                "request {number} of {FLIGHTS}, {}: {wrong}",
                label(&request)
            ));
        }
    }
    let lost = evidence.len() as u64;
    let measured = format!("{lost} of {FLIGHTS} lost");
    if lost > stage.threshold.count() {
        let mut finding =
            Finding::failed(format!("{lost} of {FLIGHTS} requests in flight were lost"));
        finding.by_time = by_time;
        return Ok(finding
            .shown(evidence)
            .shown(run.last_lines(5))
            .measured(measured));
    }
    Ok(Finding::passed(format!(
        "all {FLIGHTS} requests in flight were answered, whole {reference}"
    ))
    .measured(measured))
}

/// What the same requests are answered with while the program runs.
async fn before_any_stop(
    stage: &Stage<'_>,
    run: &Run,
    request: &Request,
    late: Duration,
) -> Result<Vec<Answer>, Finding> {
    let mut answers = Vec::new();
    for flight in stage.hold_open(run, request, FLIGHTS / 2).await? {
        match flight.land(late).await.result {
            Ok(answer) if answer.head.status < 400 => answers.push(answer),
            Ok(answer) => {
                let status = answer.head.status;
                return Err(Finding::skipped(format!("the slow path answers {status}")));
            }
            Err(broken) => {
                return Err(Finding::failed(format!(
                    "the slow path fails before any stop: {broken}"
                )));
            }
        }
    }
    Ok(answers)
}
