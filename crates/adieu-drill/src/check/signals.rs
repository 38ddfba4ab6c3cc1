//! A stop that is asked for in some unusual way, with a request in flight.

use std::time::{Duration, Instant};

use crate::error::CannotDrill;
use crate::finding::Finding;
use crate::flight::Flight;
use crate::process::{Ended, Form, describe};
use crate::record::With;
use crate::reference::is_other;
use crate::report::{Fate, Outcome};
use crate::select;
use crate::stage::{PATIENCE, Run, Stage};
use crate::threshold::show;
use crate::wire::Wire;

/// How much later than the drain begins the answer is due.
const BEYOND: Duration = Duration::from_millis(700);
/// An interpreter gives its handlers back before it is gone. A signal that meets it there breaks nothing off.
const LAST_STEPS: Duration = Duration::from_millis(200);

/// Starts the program, asks it to stop with `ask`, and judges what became of the request in flight and of the program.
pub(crate) async fn stop_with(
    stage: &mut Stage<'_>,
    what: &str,
    ask: impl AsyncFnOnce(&Run) -> Instant,
) -> Result<Finding, CannotDrill> {
    stop_as(stage, &Form::Plain, what, ask).await
}

/// The same for a program that is started in some other form.
pub(crate) async fn stop_as(
    stage: &mut Stage<'_>,
    form: &Form,
    what: &str,
    ask: impl AsyncFnOnce(&Run) -> Instant,
) -> Result<Finding, CannotDrill> {
    if stage.found.idle_stop.is_none() {
        return Ok(stage.killed_when_idle());
    }
    let run = stage.start_as(form).await?;
    let (flights, before) = match in_flight(stage, &run).await {
        Ok(flights) => flights,
        // Then it is as without a slow path.
        Err(finding) if finding.outcome == Outcome::Skipped => Default::default(),
        Err(finding) => return Ok(finding),
    };
    let signal = ask(&run).await;
    let count = flights.len();
    let (lost, by_time) = losses(stage, flights, before).await;
    let lost: Vec<_> = lost
        .iter()
        .map(|how| format!("a request in flight: {how}"))
        .collect();
    let ended = run
        .subject
        .ended_within(stage.drill.grace.saturating_sub(signal.elapsed()))
        .await;
    stage.note_end(signal, ended);
    // Below a shell it is the shell that ended; the program is what it left.
    let below_shell = matches!(form, Form::BelowShell);
    let crash = ended
        .filter(|ended| !below_shell && super::is_crash(ended.status, run.stop_signal()))
        .map(|ended| describe(ended.status));
    let too_many = lost.len() as u64 > stage.threshold.count();
    if crash.is_some() || too_many {
        let lines = run.last_lines(10);
        run.subject.kill().await;
        let single = at_one_signal(stage).await?;
        if let Some(finding) = not_to_blame(stage, what, crash.is_some(), &single) {
            return Ok(finding.shown(lost).shown(lines));
        }
        if let Some(how) = crash.filter(|_| !too_many) {
            return Ok(Finding::failed(format!("with {what} it crashed: {how}"))
                .shown(["at a single signal it does not".to_owned()])
                .shown(lines));
        }
    }
    if too_many {
        let mut finding = Finding::failed(format!(
            "{} of {count} requests in flight were lost to {what}",
            lost.len()
        ));
        finding.by_time = by_time;
        return Ok(finding
            .shown(lost)
            .shown(ended.map(|ended| format!("the program: {}", describe(ended.status))))
            .shown(run.last_lines(3)));
    }
    let with = if count == 0 { With::Nobody } else { With::Hold };
    let Some(ended) = ended else {
        stage.note_endless();
        return Ok(stage.killed(&run, with));
    };
    if count == 0
        && matches!(form, Form::Plain)
        && let Some(finding) = broken_off(stage, what, signal, ended)
    {
        return Ok(finding.shown(run.last_lines(5)));
    }
    if below_shell {
        while run.subject.target_lives().await {
            if signal.elapsed() > stage.drill.grace {
                stage.note_endless();
                return Ok(stage.killed(&run, with));
            }
            // Nothing tells of the end of somebody else's child.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // Below a shell `ended` is the shell's.
    let gone = if below_shell {
        Instant::now()
    } else {
        ended.at
    };
    let took = show(gone.saturating_duration_since(signal));
    let kept = match count {
        0 => String::new(),
        _ => format!(" answered all {count} requests in flight and"),
    };
    Ok(Finding::passed(format!("with {what} it{kept} ended in {took}")).measured(took))
}

/// Two requests to the slow path that are open now, and the status it answered with before.
async fn in_flight(stage: &Stage<'_>, run: &Run) -> Result<(Vec<Flight>, u16), Finding> {
    // Where it is asked for less the body may differ, but not the status.
    let before = match stage.slow(run, Duration::ZERO) {
        Some(request) => Wire::ask_within(&run.place, &request, PATIENCE).await.ok(),
        None => None,
    };
    match (before, stage.held(run, BEYOND)) {
        (Some(before), Some(request)) => {
            let flights = stage.hold_open(run, &request, 2).await?;
            Ok((flights, before.head.status))
        }
        _ => Ok((Vec::new(), 0)),
    }
}

/// How each of these was lost that was, and whether time alone says so.
async fn losses(stage: &Stage<'_>, flights: Vec<Flight>, before: u16) -> (Vec<String>, bool) {
    let mut lost = Vec::new();
    let mut by_time = true;
    for flight in flights {
        let landed = flight.land(stage.idle_stop() + BEYOND + PATIENCE).await;
        let wrong = match &landed.result {
            Ok(answer) if is_other(answer.head.status, before) => {
                format!("answered {}, before the stop {before}", answer.head.status)
            }
            Ok(_) => continue,
            Err(broken) => broken.to_string(),
        };
        by_time &= landed.fate() == Fate::TimedOut;
        lost.push(wrong);
    }
    (lost, by_time)
}

/// Where nothing is in flight only the end tells that a clean-up was broken off: at one signal it was a success, and now
/// it came sooner and is none.
fn broken_off(stage: &Stage<'_>, what: &str, signal: Instant, ended: Ended) -> Option<Finding> {
    let single = stage.found.idle_end?;
    let took = ended.at.saturating_duration_since(signal);
    if !single.status.success() || ended.status.success() || took + LAST_STEPS > stage.idle_stop() {
        return None;
    }
    let how = describe(ended.status);
    let finding = Finding::late(format!(
        "with {what} it did not end as it does at a single signal: {how}"
    ));
    let single = describe(single.status);
    Some(finding.shown([
        format!(
            "at a single signal: {single} after {}",
            show(stage.idle_stop())
        ),
        format!("with {what}: {how} after {}", show(took)),
    ]))
}

/// What one signal, sent in the plainest way with requests in flight, does already.
#[derive(Default)]
struct Single {
    crash: Option<String>,
    /// What became of the requests, if they were lost.
    lost: Vec<String>,
}

async fn at_one_signal(stage: &mut Stage<'_>) -> Result<Single, CannotDrill> {
    let run = stage.start().await?;
    let (flights, before) = in_flight(stage, &run).await.unwrap_or_default();
    let signal = run.stop();
    let (lost, _) = losses(stage, flights, before).await;
    let left = stage.drill.grace.saturating_sub(signal.elapsed());
    let ended = run.subject.ended_within(left).await;
    stage.note_end(signal, ended);
    let crash = ended.filter(|ended| super::is_crash(ended.status, run.stop_signal()));
    Ok(Single {
        crash: crash.map(|ended| describe(ended.status)),
        lost,
    })
}

/// What was found has another cause than what this check does, if one signal does the same. It is a failure of the check
/// that is about it, or of this one if that one is not asked, or has seen nothing of it.
fn not_to_blame(stage: &Stage<'_>, what: &str, crashed: bool, single: &Single) -> Option<Finding> {
    let (does, about, seen) = match (&single.crash, single.lost.first()) {
        (Some(how), _) if crashed => (
            format!("crashes at a single signal already ({how})"),
            "exit-code",
            // It is run last, and judges this stop too.
            select::is_planned(stage.drill, "exit-code"),
        ),
        (_, Some(how)) if !crashed => (
            format!("loses what is in flight at a single signal already ({how})"),
            "inflight-finishes",
            stage.record.has_failed("inflight-finishes"),
        ),
        _ => return None,
    };
    let words = format!("it {does}, so nothing can be said about {what}; see {about}");
    let finding = if seen {
        Finding::skipped(words)
    } else {
        Finding::failed(words)
    };
    let crash = single.crash.iter().filter(|_| crashed);
    let shown = crash.chain(&single.lost);
    Some(finding.shown(shown.map(|how| format!("one signal with requests in flight: {how}"))))
}
