//! A stop in the middle of a load: every request is known to the byte.

use std::time::{Duration, Instant};

use adieu_load::{Load, Mode, Running, Tally};
use tokio::time::{sleep, timeout};

use crate::discover::Speaks;
use crate::error::CannotDrill;
use crate::finding::Finding;
use crate::place::{Place, label};
use crate::record::{self, With};
use crate::report::{Fate, Mark, MarkKind, StopTimeline};
use crate::stage::{PATIENCE, Run, Stage};
use crate::threshold::show;
use crate::wire::Wire;

/// So many answers say that the load is running; with fewer clients one for each of them does.
const WARM: u64 = 64;
/// An idle stop of this length can be had three times also at the quick level.
const SHORT: Duration = Duration::from_millis(1_500);
/// How often the readiness probe is asked after the signal, and how long one answer may take.
const PACE: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_secs(3);
/// How many of the last requests of a client are drawn, at least.
const KEPT: usize = 320;

/// The load of this mode that fits the program, if there is one.
pub(crate) fn load(stage: &mut Stage<'_>, run: &Run, mode: Mode) -> Option<Load> {
    let load = match stage.found.speaks {
        Speaks::Http => Load::request(run.place.target(), &run.place.request()),
        Speaks::Echo => Load::echo(run.place.plain()),
        Speaks::Other => return None,
    };
    let load = load
        .clients(stage.drill.clients)
        .mode(mode)
        .patience(PATIENCE * 2);
    Some(load.seed(stage.dice.u64(..)).keep(KEPT))
}

/// Stops the program so many times under a load of this mode.
pub(crate) async fn stops(stage: &mut Stage<'_>, mode: Mode) -> Result<Finding, CannotDrill> {
    if mode == Mode::KeepAlive && never_keeps(stage) {
        return Ok(Finding::skipped(super::NEVER_KEEPS));
    }
    if stage.found.speaks == Speaks::Other {
        return Ok(Finding::skipped(super::NO_TRAFFIC));
    }
    // Each of the stops would take all of the grace, and none would be one.
    if stage.found.idle_stop.is_none() {
        return Ok(stage.killed_when_idle());
    }
    // A race is lost now and then: one stop says little, and where stops are short three cost little.
    let quick = if mode == Mode::KeepAlive && stage.idle_stop() < SHORT {
        3
    } else {
        1
    };
    let times = stage.times(quick, 3, 5);
    let mut sum = Tally::default();
    for number in 1..=times {
        stage.step(u64::from(number - 1), &format!("stop {number} of {times}"));
        match once(stage, mode).await? {
            Ok(mut tally) => {
                tally.bars.clear();
                sum += tally;
            }
            Err(finding) => return Ok(finding),
        }
    }
    let stops = if times == 1 { "stop" } else { "stops" };
    let lost = sum.lost() + sum.failed;
    let measured = format!("{lost} of {} lost", sum.sent());
    if lost > stage.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {} requests were lost in {times} {stops}: {}",
            sum.sent(),
            classes(&sum)
        ));
        // A client that was not served in time may have been the one without a processor.
        finding.by_time = sum.timed_out == lost;
        return Ok(finding.shown(sum.evidence).measured(measured));
    }
    let also = match classes(&sum) {
        words if words.is_empty() => String::new(),
        words => format!(" ({words})"),
    };
    Ok(Finding::passed(format!(
        "{} requests crossed {times} {stops} and none was lost{also}",
        sum.sent()
    ))
    .measured(measured))
}

/// What became of those that were not simply answered.
pub(crate) fn classes(tally: &Tally) -> String {
    let classes = [
        (tally.reset, Fate::Reset.words()),
        (tally.closed, Fate::Closed.words()),
        (tally.truncated, Fate::Truncated.words()),
        (tally.timed_out, Fate::TimedOut.words()),
        (tally.failed, Fate::ServerError.words()),
        (tally.retry, Fate::Retry.words()),
        (tally.unsent, Fate::Unsent.words()),
        (tally.refused, Fate::Refused.words()),
    ];
    let some = classes.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    words.join(", ")
}

/// Whether it speaks HTTP and closes the connection after every answer.
pub(crate) fn never_keeps(stage: &Stage<'_>) -> bool {
    stage.found.speaks == Speaks::Http && !stage.found.keeps_alive
}

/// The mode in which most clients speak to it.
pub(crate) fn usual(stage: &Stage<'_>) -> Mode {
    if never_keeps(stage) {
        Mode::Fresh
    } else {
        Mode::KeepAlive
    }
}

/// Waits until the load is running. A program that is slow to answer is stopped with what it has answered by then.
pub(crate) async fn warm(stage: &Stage<'_>, run: &Run, running: &Running) -> Result<(), Finding> {
    let clients = stage.drill.clients;
    let enough = WARM.min(clients as u64);
    let all = timeout(PATIENCE * 2, running.answered(enough)).await;
    if all.is_ok() || timeout(Duration::ZERO, running.answered(1)).await.is_ok() {
        return Ok(());
    }
    Err(Finding::skipped(format!(
        "before any stop, {clients} clients got not one answer in {}: try fewer with --clients, or a path that answers \
         sooner",
        show(PATIENCE * 2)
    ))
    .shown(run.last_lines(5)))
}

/// One stop under load. A program that had to be killed has not stopped, whatever it answered.
pub(crate) async fn once(
    stage: &mut Stage<'_>,
    mode: Mode,
) -> Result<Result<Tally, Finding>, CannotDrill> {
    let run = stage.start().await?;
    let Some(load) = load(stage, &run, mode) else {
        return Ok(Err(Finding::skipped(super::NO_TRAFFIC)));
    };
    let running = load.start();
    if let Err(finding) = warm(stage, &run, &running).await {
        return Ok(Err(finding));
    }
    // Not always at the same point of whatever the server does.
    sleep(Duration::from_millis(stage.dice.u64(100..400))).await;
    let probe = stage.found.readiness.as_ref();
    let probe = probe.and_then(|path| run.place.at(&run.subject.blanks.fill(path)).ok());
    let signal = run.stop();
    let asking = probe.map(|probe| tokio::spawn(readiness_off(probe)));
    let ended = stage.see_end(&run, signal, With::Load).await;
    let off = match asking {
        Some(asking) => timeout(GLANCE, asking)
            .await
            .ok()
            .and_then(Result::ok)
            .flatten(),
        None => None,
    };
    // Refused, the clients end by themselves. If the program still serves they are asked to.
    running.end();
    let tally = match timeout(PATIENCE * 3, running.finish()).await {
        Ok(tally) => tally,
        Err(_) => return Ok(Err(Finding::late("the clients did not come to an end"))),
    };
    let mut marks = record::marks(signal, stage.drill.signal.name(), ended);
    marks.extend(off.map(|at| Mark {
        at_us: record::micros(at, signal),
        kind: MarkKind::ReadinessOff,
        label: String::new(),
    }));
    let drawn = draw(stage, &run, &tally, signal, marks);
    if stage.record.target_report.is_none() && drawn.is_some() {
        let text = tokio::fs::read(&run.subject.report)
            .await
            .unwrap_or_default();
        stage.record.target_report = serde_json::from_slice(&text).ok();
        stage.record.target_report_stop = drawn;
    }
    let killed = ended
        .is_none()
        .then(|| stage.killed(&run, With::Load).shown(tally.evidence.clone()));
    run.subject.kill().await;
    Ok(killed.map_or(Ok(tally), Err))
}

/// When the readiness probe says no for the first time, if it does before nobody answers any more.
async fn readiness_off(probe: Place) -> Option<Instant> {
    loop {
        match Wire::ask_within(&probe, &probe.request(), GLANCE).await {
            Ok(answer) if (200..300).contains(&answer.head.status) => sleep(PACE).await,
            Ok(_) => return Some(Instant::now()),
            Err(_) => return None,
        }
    }
}

fn draw(
    stage: &mut Stage<'_>,
    run: &Run,
    tally: &Tally,
    signal: Instant,
    marks: Vec<Mark>,
) -> Option<usize> {
    let label = match stage.found.speaks {
        Speaks::Http => label(&run.place.request()),
        Speaks::Echo | Speaks::Other => "line".to_owned(),
    };
    let (requests, omitted) = record::bars(tally, signal, &label);
    stage.record.draw(record::complete(StopTimeline {
        check: stage.spec.id.to_owned(),
        run: stage.run,
        marks,
        requests,
        omitted,
    }))
}
