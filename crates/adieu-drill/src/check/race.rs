//! A stop in the middle of a load: every request is known to the byte.

use std::time::{Duration, Instant};

use adieu_load::{Load, Mode, Running, Tally};
use tokio::time::{sleep, timeout};

use crate::capabilities::Speaks;
use crate::context::CheckContext;
use crate::endpoint::{Endpoint, label};
use crate::error::DrillError;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn};
use crate::report::{Fate, Level, Mark, MarkKind, StopTimeline};
use crate::running::RunningTarget;
use crate::stop_log::{self, LoadKind};
use crate::threshold::show;

/// So many answers say that the load is running; with fewer clients one for each of them does.
const WARM: u64 = 64;
/// How many stops a race is looked for in. A loss that happens in every second stop is missed by 5 stops 1 time in 32,
/// by 8 stops 1 time in 256; one that happens in every seventh, by 20 stops 1 time in 22.
const QUICK: u32 = 5;
const USUAL: u32 = 8;
const FULL: u32 = 20;
/// At the quick level no further stop is begun after so long. The report says how many there were.
const QUICK_TIME: Duration = Duration::from_secs(8);
/// How often the readiness probe is asked after the signal, and how long one answer may take.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// How many of the last requests of a client are drawn, at least.
const KEPT: usize = 320;

/// The load of this mode that fits the program, if there is one.
pub(crate) fn load(cx: &mut CheckContext<'_>, run: &RunningTarget, mode: Mode) -> Option<Load> {
    let load = match cx.capabilities.speaks {
        Speaks::Http => Load::request(run.endpoint.target(), &run.endpoint.request()),
        Speaks::Echo => Load::echo(run.endpoint.plain()),
        Speaks::Other => return None,
    };
    let load = load
        .clients(cx.drill.clients)
        .mode(mode)
        .patience(ANSWER_TIMEOUT * 2);
    Some(load.seed(cx.rng.u64(..)).keep(KEPT))
}

/// Stops the program so many times under a load of this mode.
pub(crate) async fn stops(cx: &mut CheckContext<'_>, mode: Mode) -> Result<Finding, DrillError> {
    if mode == Mode::KeepAlive && never_keeps(cx) {
        return Ok(Finding::skipped(super::NEVER_KEEPS));
    }
    if cx.capabilities.speaks == Speaks::Other {
        return Ok(Finding::skipped(super::NO_TRAFFIC));
    }
    // Each of the stops would take all of the grace, and none would be one.
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle());
    }
    let begun = Instant::now();
    let times = cx.times(QUICK, USUAL, FULL);
    let mut sum = Tally::default();
    let mut made = 0;
    // A loss is a loss: what follows the first stop that has too many adds nothing.
    while made < times && sum.lost() + sum.failed <= cx.threshold.count() {
        if cx.drill.level == Level::Quick && made > 0 && begun.elapsed() > QUICK_TIME {
            break;
        }
        made += 1;
        cx.step(u64::from(made - 1), &format!("stop {made} of {times}"));
        match once(cx, mode).await? {
            Ok(mut tally) => {
                tally.spans.clear();
                sum += tally;
            }
            Err(finding) => return Ok(finding),
        }
    }
    let stops = if made == 1 { "stop" } else { "stops" };
    let lost = sum.lost() + sum.failed;
    let measured = format!("{lost} of {} lost", sum.sent());
    let told = format!(
        "{lost} of {} requests were lost in {made} {stops}",
        sum.sent()
    );
    if lost > cx.threshold.count() {
        let mut finding = Finding::failed(format!("{told}: {}", classes(&sum)));
        // A client that was not served in time may have been the one without a processor.
        finding.by_time = sum.timed_out == lost;
        return Ok(finding.shown(sum.evidence).measured(measured));
    }
    let also = match classes(&sum) {
        words if words.is_empty() => String::new(),
        words => format!(" ({words})"),
    };
    let words = match lost {
        0 => format!(
            "{} requests crossed {made} {stops} and none was lost{also}; {}",
            sum.sent(),
            excluded(made)
        ),
        _ => format!("{told}{also}, as the threshold allows"),
    };
    Ok(Finding::passed(words).measured(measured))
}

/// What so many stops without a loss say about a loss that happens in a part of all stops: `1 - 0.05^(1/stops)` is the
/// part that would have been seen with 95 % probability.
pub(crate) fn excluded(stops: u32) -> String {
    let part = 1.0 - 0.05_f64.powf(1.0 / f64::from(stops.max(1)));
    format!(
        "a loss in {:.0} % of all stops or more would have been seen with 95 % probability",
        part * 100.0
    )
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
pub(crate) fn never_keeps(cx: &CheckContext<'_>) -> bool {
    cx.capabilities.speaks == Speaks::Http && !cx.capabilities.keeps_alive
}

/// The mode in which most clients speak to it.
pub(crate) fn usual(cx: &CheckContext<'_>) -> Mode {
    if never_keeps(cx) {
        Mode::Fresh
    } else {
        Mode::KeepAlive
    }
}

/// Waits until the load is running. A program that is slow to answer is stopped with what it has answered by then.
pub(crate) async fn warm(
    cx: &CheckContext<'_>,
    run: &RunningTarget,
    running: &Running,
) -> Result<(), Finding> {
    let clients = cx.drill.clients;
    let enough = WARM.min(clients as u64);
    let all = timeout(ANSWER_TIMEOUT * 2, running.answered(enough)).await;
    if all.is_ok() || timeout(Duration::ZERO, running.answered(1)).await.is_ok() {
        return Ok(());
    }
    Err(Finding::skipped(format!(
        "before any stop, {clients} clients got not one answer in {}: try fewer with --clients, or a path that answers \
         sooner",
        show(ANSWER_TIMEOUT * 2)
    ))
    .shown(run.last_lines(5)))
}

/// One stop under load. A program that had to be killed has not stopped, whatever it answered.
pub(crate) async fn once(
    cx: &mut CheckContext<'_>,
    mode: Mode,
) -> Result<Result<Tally, Finding>, DrillError> {
    let run = cx.start().await?;
    let Some(load) = load(cx, &run, mode) else {
        return Ok(Err(Finding::skipped(super::NO_TRAFFIC)));
    };
    let running = load.start();
    if let Err(finding) = warm(cx, &run, &running).await {
        return Ok(Err(finding));
    }
    // Not always at the same point of whatever the server does.
    sleep(Duration::from_millis(cx.rng.u64(100..400))).await;
    let probe = cx.capabilities.readiness.as_ref();
    let probe = probe.and_then(|path| run.endpoint.at(&run.process.placeholders.fill(path)).ok());
    let signal = run.stop();
    let asking = probe.map(|probe| tokio::spawn(readiness_off(probe)));
    let ended = cx.see_end(&run, signal, LoadKind::Load).await;
    let off = match asking {
        Some(asking) => timeout(PROBE_TIMEOUT, asking)
            .await
            .ok()
            .and_then(Result::ok)
            .flatten(),
        None => None,
    };
    // Refused, the clients end by themselves. If the program still serves they are asked to.
    running.end();
    let tally = match timeout(ANSWER_TIMEOUT * 3, running.finish()).await {
        Ok(tally) => tally,
        Err(_) => return Ok(Err(Finding::late("the clients did not come to an end"))),
    };
    let mut marks = stop_log::marks(signal, cx.drill.signal.name(), ended);
    marks.extend(off.map(|at| Mark {
        at_us: stop_log::micros(at, signal),
        kind: MarkKind::ReadinessOff,
        label: String::new(),
    }));
    let drawn = draw(cx, &run, &tally, signal, marks);
    if cx.log.target_report.is_none() && drawn.is_some() {
        let text = tokio::fs::read(&run.process.report)
            .await
            .unwrap_or_default();
        cx.log.target_report = serde_json::from_slice(&text).ok();
        cx.log.target_report_stop = drawn;
    }
    let killed = ended.is_none().then(|| {
        cx.killed(&run, LoadKind::Load)
            .shown(tally.evidence.clone())
    });
    run.process.kill().await;
    Ok(killed.map_or(Ok(tally), Err))
}

/// When the readiness probe says no for the first time, if it does before the program stops answering.
async fn readiness_off(probe: Endpoint) -> Option<Instant> {
    loop {
        match RawConn::ask_within(&probe, &probe.request(), PROBE_TIMEOUT).await {
            Ok(answer) if (200..300).contains(&answer.head.status) => sleep(PROBE_INTERVAL).await,
            Ok(_) => return Some(Instant::now()),
            Err(_) => return None,
        }
    }
}

fn draw(
    cx: &mut CheckContext<'_>,
    run: &RunningTarget,
    tally: &Tally,
    signal: Instant,
    marks: Vec<Mark>,
) -> Option<usize> {
    let label = match cx.capabilities.speaks {
        Speaks::Http => label(&run.endpoint.request()),
        Speaks::Echo | Speaks::Other => "line".to_owned(),
    };
    let (requests, omitted) = stop_log::bars(tally, signal, &label);
    cx.log.draw(stop_log::complete(StopTimeline {
        check: cx.spec.id.to_owned(),
        run: cx.run,
        marks,
        requests,
        omitted,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_stops_the_smaller_a_loss_that_would_have_been_seen() {
        for (stops, part) in [
            (1, "95 %"),
            (QUICK, "45 %"),
            (USUAL, "31 %"),
            (FULL, "14 %"),
        ] {
            let said = excluded(stops);
            assert!(said.contains(&format!("in {part} of all stops")), "{said}");
        }
    }
}
