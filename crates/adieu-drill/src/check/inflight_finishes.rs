//! What was begun before the stop is finished.

use std::time::Duration;

use adieu_load::Request;

use super::{Spec, Trying};
use crate::arrival::Arrival;
use crate::context::CheckContext;
use crate::endpoint::label;
use crate::expected::{ExpectedResponse, twice};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, Answer};
use crate::report::{Fate, Group, StopTimeline};
use crate::running::RunningTarget;
use crate::stop_log;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "inflight-finishes",
    group: Group::Drain,
    quick: true,
    why: "A request that was accepted before the stop may be a customer's order; a deployment must not drop it.",
    how: "Several requests to the slow path are in flight when the signal comes, and outlast whatever the program does \
          before it drains. Every one must be answered whole, with the status of the same request answered several \
          times before, over more than a second (of the same class, and never 5xx: what was accepted cannot be sent \
          elsewhere any more), and with its bytes, save for the value of a number, which may be a clock; with its \
          length, give or take a number, if the bytes differ each time. A program that works on few requests at once, as \
          gunicorn does with sync workers, has the others in its accept queue: the kernel has accepted them, so they \
          count too, and the report says where each of them was at the signal. Where a drain always lasts the same time, \
          the requests take half of it.",
    applies: "Needs a path that answers late: --slow \"/slow?ms={ms}\", or found at /slow?ms=, /sleep?ms= or /delay?ms=. \
              For a worker or a bot, --feed COMMAND gives it work and prints what it gave; after the stop and a restart \
              --ledger COMMAND must print all of it within the time that a stop may take.",
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
            "SIGTERM is graceful, SIGQUIT and SIGINT are not; raise `--graceful-timeout`. What waits in the accept queue of \
             sync workers is reset by any stop: start it with `adieu run --listen`, or hold the socket in systemd",
        ),
        (
            "Node",
            "`process.on('SIGTERM', () => server.close(() => process.exit(0)))`, never `process.exit()` at once",
        ),
        (
            "Java",
            "a shutdown hook with `HttpServer.stop(seconds)`; in Spring Boot `server.shutdown=graceful`",
        ),
        (
            "Celery",
            "`task_acks_late` with `task_reject_on_worker_lost`, so that a task that is cut is done by another worker",
        ),
        (
            "Go",
            "`server.Shutdown(ctx)` and wait for it to return before `main` does",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const FLIGHTS: usize = 4;
/// How much later than the drain begins the answers are due.
const ANSWER_AFTER_DRAIN_BEGINS: Duration = Duration::from_millis(700);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.slow.is_none() && cx.can_feed() {
        return cx.work_in_hand().await;
    }
    if cx.capabilities.slow.is_none() {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = cx.start().await?;
    let Some(request) = cx.held(&run, ANSWER_AFTER_DRAIN_BEGINS) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let count = cx.together(&run, FLIGHTS);
    // A program that works on few at once answers them in turns.
    let turns = count.div_ceil(cx.at_once(count).max(1));
    let hold = cx.hold_time(ANSWER_AFTER_DRAIN_BEGINS);
    let late = hold * u32::try_from(turns).unwrap_or(1) + ANSWER_TIMEOUT;
    let answers = match twice(|| before_any_stop(cx, &run, &request, late)).await {
        Ok(answers) => answers.concat(),
        Err(finding) => return Ok(finding),
    };
    let Some(reference) = ExpectedResponse::of(&answers) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };

    let requests = match cx.hold_open(&run, &request, count).await {
        Ok(requests) => requests,
        Err(finding) => return Ok(finding),
    };
    let signal = run.stop();
    let mut finished = Vec::new();
    for in_flight in requests {
        finished.push(
            in_flight
                .finish(late.min(cx.drill.grace + ANSWER_TIMEOUT))
                .await,
        );
    }
    let ended = cx.see_out(&run, signal).await;
    let bars = finished
        .iter()
        .zip(0..)
        .map(|(finished, number)| finished.bar(signal, number));
    let stop = StopTimeline {
        check: cx.spec.id.to_owned(),
        run: cx.run,
        marks: stop_log::marks(signal, cx.drill.signal.name(), ended),
        requests: bars.collect(),
        omitted: 0,
    };
    cx.log.draw(stop_log::complete(stop));

    let mut evidence = Vec::new();
    let mut lost_of = Vec::new();
    let mut by_time = true;
    for (finished, number) in finished.iter().zip(1..) {
        let wrong = match &finished.result {
            Ok(answer) => reference.wrong(answer),
            Err(broken) => Some(broken.to_string()),
        };
        if let Some(wrong) = wrong {
            by_time &= finished.fate() == Fate::TimedOut;
            lost_of.push(finished.arrival);
            evidence.push(format!(
                "request {number} of {count}, {}, due {} after it was sent: {wrong}, {} after the signal; at the \
                 signal it {}",
                label(&request),
                show(hold),
                show(finished.ended.saturating_duration_since(signal)),
                finished.arrival.words()
            ));
        }
    }
    evidence.extend(
        cx.capabilities
            .fixed_drain
            .as_ref()
            .map(ToString::to_string),
    );
    let lost = lost_of.len() as u64;
    let measured = format!("{lost} of {count} lost");
    if lost > cx.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {count} requests in flight were lost{}",
            places(&lost_of)
        ));
        finding.by_time = by_time;
        return Ok(finding
            .shown(evidence)
            .shown(run.last_lines(5))
            .measured(measured));
    }
    let all: Vec<Arrival> = finished.iter().map(|finished| finished.arrival).collect();
    let drain = cx.capabilities.fixed_drain.as_ref();
    let drain = drain.map_or_else(String::new, |drain| format!("; {drain}"));
    Ok(Finding::passed(format!(
        "all {count} requests in flight were answered{}, whole {reference}{drain}",
        places(&all)
    ))
    .measured(measured))
}

/// Where requests were at the signal, if not all of them had been read: `, 2 of them from the accept queue`.
fn places(arrivals: &[Arrival]) -> String {
    let count = |wanted: Arrival| arrivals.iter().filter(|it| **it == wanted).count();
    let places = [
        (
            count(Arrival::Accepted),
            "accepted by the program and not read",
        ),
        (count(Arrival::Queued), "in the accept queue"),
    ];
    let some = places.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, arrival)| format!("{count} of them {arrival} at the signal"))
        .collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    }
}

/// What the same requests are answered with while the program runs.
async fn before_any_stop(
    cx: &CheckContext<'_>,
    run: &RunningTarget,
    request: &Request,
    late: Duration,
) -> Result<Vec<Answer>, Finding> {
    let mut answers = Vec::new();
    for in_flight in cx
        .hold_open(run, request, cx.together(run, FLIGHTS / 2))
        .await?
    {
        match in_flight.finish(late).await.result {
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
