//! What is demanded behind a balancer, and what is advised.

use std::time::Duration;

use super::Setting;
use super::attribution::{cause, is_lost};
use super::profile::Profile;
use super::rolling::Rolled;
use crate::check::{CheckInfo, hints};
use crate::report::{BehindAdvice, BehindRun, Check, Group, Outcome, Recommendation};
use crate::threshold::{Threshold, show};

/// All checks behind a balancer, in the order in which they are shown.
pub fn behind_checks() -> impl Iterator<Item = CheckInfo> {
    ALL.iter().copied()
}

const ALL: [CheckInfo; 3] = [
    CheckInfo {
        id: "behind-lost",
        group: Group::Rollout,
        quick: false,
        why: "A balancer sends to an instance for seconds after its stop signal: what it sends then is lost if the instance \
              is gone.",
        how: "Instances are started behind a balancer, simulated or real, and replaced one after the other under load: a new one is \
              started, the old one gets the stop signal, is taken out of the routes as late as the profile says, and is killed after the \
              grace period. Each request must be answered.",
        applies: "With --behind.",
        threshold: |_| Threshold::Count(0, "requests lost"),
        hints: &[
            (
                "any",
                "serve on for as long as the balancer sends: a preStop sleep, or a lame duck in the program, longer than the \
                 time until it is out of the routes (`adieu run --pre-stop 5s`, `App::lame_duck`)",
            ),
            (
                "keep-alive connections",
                "answer with `Connection: close` while stopping, so that the balancer opens no race on a keep-alive connection",
            ),
            (
                "balancers of requests",
                "let the balancer try another instance after a refused connection",
            ),
        ],
    },
    CheckInfo {
        id: "behind-in-time",
        group: Group::Rollout,
        quick: false,
        why: "The time before the stop signal is part of the grace period: a long preStop leaves little for the drain.",
        how: "Each instance must end by itself within the grace period, which begins with its stop, preStop included.",
        applies: "With --behind.",
        threshold: |_| Threshold::Count(0, "instances killed"),
        hints: &[(
            "any",
            "make the grace period longer than --pre-stop and the slowest stop together: terminationGracePeriodSeconds, \
             stop_grace_period, TimeoutStopSec",
        )],
    },
    CheckInfo {
        id: "behind-advice",
        group: Group::Rollout,
        quick: false,
        why: "Advice that was not tried is an opinion.",
        how: "The instances are replaced once more, with the time before the stop signal and the grace period that are advised. \
              Then each request must be answered.",
        applies: "With --prove-advice, if something was lost before.",
        threshold: |_| Threshold::Count(0, "requests lost"),
        hints: &[(
            "any",
            "what is lost though the instance serves on until the balancer is done is lost by the program itself: drill it \
             alone with `adieu drill --http URL -- COMMAND`",
        )],
    },
];

/// What is demanded, in the order of the checks.
pub(super) fn thresholds(set: &[(String, String)]) -> Result<Vec<Threshold>, String> {
    crate::check::thresholds_of(&ALL, set, "--behind")
}

/// One roll-out, told and summed.
pub(super) struct Run {
    pub(super) told: BehindRun,
    /// The slowest stop that was not cut.
    pub(super) slowest: Option<Duration>,
    pub(super) killed: usize,
}

/// A second for what the measurement did not meet.
const UNMEASURED_MARGIN: Duration = Duration::from_secs(1);

/// What would have lost nothing, as far as the balancer is the reason.
pub(super) fn advice(rolled: &Rolled, profile: &Profile, setting: &Setting) -> BehindAdvice {
    let replaced = &rolled.replaced;
    let seen = replaced
        .iter()
        .map(|one| one.removed.saturating_duration_since(one.told));
    let longest = profile
        .removal
        .as_ref()
        .map(super::profile::Removal::longest);
    // Without a control plane it is out of the routes only because it has stopped serving: no time before helps.
    let pre_stop = longest.map(|longest| {
        let seen = seen.max().unwrap_or_default();
        Duration::from_secs((longest.max(seen) + UNMEASURED_MARGIN).as_secs_f64().ceil() as u64)
    });
    let stops = replaced.iter().filter(|one| !one.killed);
    let slowest = stops
        .map(|one| one.ended.saturating_duration_since(one.signal))
        .max();
    let needed = Recommendation::from_worst(slowest.unwrap_or(setting.grace));
    let pre_stop_seconds = pre_stop.unwrap_or_default().as_secs();
    let grace = pre_stop_seconds + needed.termination_grace_period_seconds;
    let lost: Vec<_> = rolled.requests.iter().filter(|it| is_lost(it)).collect();
    let of_routes = lost
        .iter()
        .filter(|it| cause(it, replaced).is_of_the_routes());
    let idle = profile.pool.idle_timeout;
    let mut lines = Vec::new();
    match (pre_stop, of_routes.count()) {
        (Some(pre_stop), some) if some > 0 && setting.pre_stop < pre_stop => lines.push(format!(
            "serve on for {} before the stop signal (preStop sleep, `adieu run --pre-stop`, lame duck): {some} of {} lost \
             requests were sent to an instance that was stopping",
            show(pre_stop),
            lost.len()
        )),
        (None, some) if some > 0 => {
            let health = profile.health.as_ref();
            let time = health.map_or(Duration::ZERO, |it| it.every * it.failures);
            lines.push(format!(
                "this balancer learns of a stop only by its health check, {} late: let the readiness probe fail for longer \
                 than that before the listener closes (a lame duck), give the check that path (--readiness), and let the \
                 balancer retry on another instance",
                show(time)
            ));
        }
        _ => {}
    }
    lines.push(format!(
        "grace period: {grace} s (terminationGracePeriodSeconds): {pre_stop_seconds} s before the signal, and half as long \
         again as the slowest stop and two seconds"
    ));
    let idle = profile.keeps_connections().then_some(idle);
    lines.extend(idle.map(|idle| {
        format!(
            "keep idle connections for longer than {} in the server, or the balancer sends on one that the server is closing",
            show(idle)
        )
    }));
    BehindAdvice {
        pre_stop_ms: pre_stop.map(|time| time.as_secs_f64() * 1_000.0),
        grace_ms: grace as f64 * 1_000.0,
        keep_alive_ms: idle.map(|idle| idle.as_secs_f64() * 1_000.0),
        lines,
    }
}

/// Judges the roll-out as it was set, and the one with what is advised if there was one.
pub(super) fn judge(
    first: &Run,
    second: Option<&Run>,
    advice: &BehindAdvice,
    prove: bool,
    thresholds: &[Threshold],
    took: Duration,
) -> Vec<Check> {
    let [lost, in_time, proof] = ALL;
    let of = |at: usize| &thresholds[at];
    let told = &first.told;
    let mut checks = vec![check(
        lost,
        of(0),
        told.lost,
        format!(
            "{} of {} requests lost while all instances were replaced, {} retried by the balancer",
            told.lost, told.requests, told.retried
        ),
        told.losses.clone(),
    )];
    if let Some(lost) = checks.first_mut().filter(|lost| lost.hint.is_some()) {
        // What follows from this very run is better than what is said of all.
        lost.hint = Some(advice.lines.join("\n"));
    }
    checks.push(check(
        in_time,
        of(1),
        first.killed as u64,
        match first.killed {
            0 => format!(
                "each instance ended by itself, the slowest {} after the stop signal",
                show(first.slowest.unwrap_or_default())
            ),
            some => format!("{some} instances were killed at the end of the grace period"),
        },
        vec![format!(
            "grace period {}, of which {} pass before the stop signal",
            show(Duration::from_secs_f64(told.grace_ms / 1_000.0)),
            show(Duration::from_secs_f64(told.pre_stop_ms / 1_000.0))
        )],
    ));
    if prove {
        checks.push(match second {
            Some(second) => check(
                proof,
                of(2),
                second.told.lost,
                format!(
                    "{} of {} requests lost with {} before the stop signal and a grace period of {}",
                    second.told.lost,
                    second.told.requests,
                    show(advice.pre_stop()),
                    show(advice.grace())
                ),
                second.told.losses.clone(),
            ),
            None => {
                let why = match told.lost {
                    0 => "nothing was lost, so there is nothing to prove",
                    _ => "no time before the stop signal helps with this balancer; see what is advised",
                };
                let mut skipped = check(proof, of(2), 0, why.to_owned(), Vec::new());
                skipped.outcome = Outcome::Skipped;
                skipped.measured = None;
                skipped
            }
        });
    }
    if let Some(first) = checks.first_mut() {
        first.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    }
    checks
}

fn check(
    info: CheckInfo,
    threshold: &Threshold,
    count: u64,
    reason: String,
    evidence: Vec<String>,
) -> Check {
    let failed = count > threshold.count();
    Check {
        id: info.id.to_owned(),
        group: info.group,
        why: info.why.to_owned(),
        outcome: if failed {
            Outcome::Failed
        } else {
            Outcome::Passed
        },
        reason,
        evidence: if failed { evidence } else { Vec::new() },
        threshold: Some(threshold.to_string()),
        measured: Some(count.to_string()),
        hint: failed.then(|| hints::all(info.hints)),
        duration_ms: 0,
        repeats: 1,
    }
}
