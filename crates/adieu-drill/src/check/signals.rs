//! A stop that is asked for in some unusual way, with a request in flight.

use std::time::{Duration, Instant};

use crate::context::CheckContext;
use crate::context::Ledger;
use crate::drill::Address;
use crate::error::DrillError;
use crate::expected::is_other;
use crate::finding::Finding;
use crate::in_flight::InFlight;
use crate::process::{Ended, LaunchMode, describe};
use crate::raw::{ANSWER_TIMEOUT, RawConn};
use crate::report::{Fate, Outcome};
use crate::running::RunningTarget;
use crate::stop_log::LoadKind;
use crate::threshold::show;

/// How much later than the drain begins the answer is due.
const ANSWER_AFTER_DRAIN_BEGINS: Duration = Duration::from_millis(700);
/// An interpreter gives its handlers back before it is gone. A signal that meets it there breaks nothing off.
const INTERPRETER_EXIT_TIME: Duration = Duration::from_millis(200);

/// Starts the program, asks it to stop with `ask`, and judges what became of the request in flight and of the program.
pub(crate) async fn stop_with(
    cx: &mut CheckContext<'_>,
    what: &str,
    ask: impl AsyncFnOnce(&RunningTarget) -> Instant,
) -> Result<Finding, DrillError> {
    stop_as(cx, &LaunchMode::Plain, what, ask).await
}

/// As [`stop_with`], for a program that is started in another form.
pub(crate) async fn stop_as(
    cx: &mut CheckContext<'_>,
    mode: &LaunchMode,
    what: &str,
    ask: impl AsyncFnOnce(&RunningTarget) -> Instant,
) -> Result<Finding, DrillError> {
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle());
    }
    let run = cx.start_as(mode).await?;
    let (requests, before) = match in_flight(cx, &run).await {
        Ok(requests) => requests,
        // Then it is as without a slow path.
        Err(finding) if finding.outcome == Outcome::Skipped => Default::default(),
        Err(finding) => return Ok(finding),
    };
    let given = match cx.feed(&run).await {
        Ok(given) => given,
        Err(finding) => return Ok(finding),
    };
    let signal = ask(&run).await;
    let count = requests.len();
    let (lost, by_time) = losses(cx, requests, before).await;
    let lost: Vec<_> = lost
        .iter()
        .map(|how| format!("a request in flight: {how}"))
        .collect();
    let ended = run
        .process
        .ended_within(cx.drill.grace.saturating_sub(signal.elapsed()))
        .await;
    cx.note_end(signal, ended);
    // Below a shell it is the shell that ended; the program is what it left.
    let below_shell = matches!(mode, LaunchMode::BelowShell);
    let crash = ended
        .filter(|ended| !below_shell && super::is_crash(ended.status, run.stop_signal()))
        .map(|ended| describe(ended.status));
    let too_many = lost.len() as u64 > cx.threshold.count();
    if crash.is_some() || too_many {
        let lines = run.last_lines(10);
        run.process.kill().await;
        let single = at_one_signal(cx).await?;
        if let Some(finding) = not_to_blame(cx, what, crash.is_some(), &single) {
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
    let with = if count == 0 {
        LoadKind::Idle
    } else {
        LoadKind::Hold
    };
    let Some(ended) = ended else {
        cx.note_endless();
        return Ok(cx.killed(&run, with));
    };
    if count == 0
        && matches!(mode, LaunchMode::Plain)
        && let Some(finding) = broken_off(cx, what, signal, ended)
    {
        return Ok(finding.shown(run.last_lines(5)));
    }
    if below_shell {
        while run.process.target_lives().await {
            if signal.elapsed() > cx.drill.grace {
                cx.note_endless();
                return Ok(cx.killed(&run, with));
            }
            // The kernel does not notify us of the end of another process's child.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    if !given.is_empty() {
        let lines = run.last_lines(5);
        run.process.kill().await;
        if let Some(finding) = work_lost(cx, what, &given).await? {
            return Ok(finding.shown(lines));
        }
    }
    // Below a shell `ended` is the shell's.
    let gone = if below_shell {
        Instant::now()
    } else {
        ended.at
    };
    let took = show(gone.saturating_duration_since(signal));
    let jobs: u64 = given.values().sum();
    let (kept, note) = match (count, jobs) {
        (0, 0) => (String::new(), nothing_in_hand(cx)),
        (0, _) => (format!(" lost none of {jobs} entries and"), ""),
        _ => (format!(" answered all {count} requests in flight and"), ""),
    };
    Ok(Finding::passed(format!("with {what} it{kept} ended in {took}{note}")).measured(took))
}

/// What a pass does not say, because the program had nothing to lose.
fn nothing_in_hand(cx: &CheckContext<'_>) -> &'static str {
    match cx.drill.address {
        None => "; it had no work in flight: --feed and --ledger give it some",
        Some(Address::Http(_)) => "; it had no request in flight: --slow gives it some",
        Some(Address::Tcp(_)) => "",
    }
}

/// What it says that work was not done which it was given before the stop, if some was not.
async fn work_lost(
    cx: &mut CheckContext<'_>,
    what: &str,
    given: &Ledger,
) -> Result<Option<Finding>, DrillError> {
    let undone = cx.undone(given).await?;
    if undone.len() as u64 <= cx.threshold.count() {
        return Ok(None);
    }
    let total: u64 = given.values().sum();
    let single = cx.work_in_hand().await?;
    let lost = undone.len();
    let finding = match single.outcome {
        Outcome::Failed => {
            let words = format!(
                "it loses work in flight at a single signal already, so nothing can be said about {what}; see \
                 inflight-finishes"
            );
            let seen = cx.log.has_failed("inflight-finishes");
            match seen {
                true => Finding::skipped(words),
                false => Finding::failed(words),
            }
        }
        Outcome::Passed | Outcome::Skipped => Finding::failed(format!(
            "{lost} of {total} entries that it was given before the stop were lost to {what}"
        )),
    };
    Ok(Some(finding.shown(undone)))
}

/// Two requests to the slow path that are open now, and the status it answered with before.
async fn in_flight(
    cx: &CheckContext<'_>,
    run: &RunningTarget,
) -> Result<(Vec<InFlight>, u16), Finding> {
    // Where it is asked for less the body may differ, but not the status.
    let before = match cx.slow(run, Duration::ZERO) {
        Some(request) => RawConn::ask_within(&run.endpoint, &request, ANSWER_TIMEOUT)
            .await
            .ok(),
        None => None,
    };
    match (before, cx.held(run, ANSWER_AFTER_DRAIN_BEGINS)) {
        (Some(before), Some(request)) => {
            let requests = cx.hold_open(run, &request, cx.at_once(2)).await?;
            Ok((requests, before.head.status))
        }
        _ => Ok((Vec::new(), 0)),
    }
}

/// How each of these was lost that was, and whether time alone says so.
async fn losses(
    cx: &CheckContext<'_>,
    requests: Vec<InFlight>,
    before: u16,
) -> (Vec<String>, bool) {
    let mut lost = Vec::new();
    let mut by_time = true;
    for in_flight in requests {
        let finished = in_flight
            .finish(cx.idle_stop() + ANSWER_AFTER_DRAIN_BEGINS + ANSWER_TIMEOUT)
            .await;
        let wrong = match &finished.result {
            Ok(answer) if is_other(answer.head.status, before) => {
                format!("answered {}, before the stop {before}", answer.head.status)
            }
            Ok(_) => continue,
            Err(broken) => broken.to_string(),
        };
        by_time &= finished.fate() == Fate::TimedOut;
        lost.push(wrong);
    }
    (lost, by_time)
}

/// Where nothing is in flight only the end tells that a clean-up was broken off: at one signal it was a success, and now
/// it came sooner and is none.
fn broken_off(cx: &CheckContext<'_>, what: &str, signal: Instant, ended: Ended) -> Option<Finding> {
    let single = cx.capabilities.idle_end?;
    let took = ended.at.saturating_duration_since(signal);
    if !single.status.success()
        || ended.status.success()
        || took + INTERPRETER_EXIT_TIME > cx.idle_stop()
    {
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
            show(cx.idle_stop())
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

async fn at_one_signal(cx: &mut CheckContext<'_>) -> Result<Single, DrillError> {
    let run = cx.start().await?;
    let (requests, before) = in_flight(cx, &run).await.unwrap_or_default();
    let signal = run.stop();
    let (lost, _) = losses(cx, requests, before).await;
    let left = cx.drill.grace.saturating_sub(signal.elapsed());
    let ended = run.process.ended_within(left).await;
    cx.note_end(signal, ended);
    let crash = ended.filter(|ended| super::is_crash(ended.status, run.stop_signal()));
    Ok(Single {
        crash: crash.map(|ended| describe(ended.status)),
        lost,
    })
}

/// What was found has another cause than what this check does, if one signal does the same. It is a failure of the check
/// that is about it, or of this one if that one is not asked, or has seen nothing of it.
fn not_to_blame(
    cx: &CheckContext<'_>,
    what: &str,
    crashed: bool,
    single: &Single,
) -> Option<Finding> {
    let (does, about, seen) = match (&single.crash, single.lost.first()) {
        (Some(how), _) if crashed => (
            format!("crashes at a single signal already ({how})"),
            "exit-code",
            // It is run last, and judges this stop too.
            cx.is_planned("exit-code"),
        ),
        (_, Some(how)) if !crashed => (
            format!("loses what is in flight at a single signal already ({how})"),
            "inflight-finishes",
            cx.log.has_failed("inflight-finishes"),
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
