//! What is demanded of a roll-out.

use std::time::Duration;

use crate::check::{CheckInfo, hints};
use crate::report::{Check, Group, Interval, Outcome, RolloutRun};
use crate::threshold::{Threshold, show};

/// All checks of a roll-out, in the order in which they are shown.
pub fn rollout_checks() -> impl Iterator<Item = CheckInfo> {
    ALL.iter().copied()
}

const ALL: [CheckInfo; 6] = [
    CheckInfo {
        id: "rollout-lost",
        group: Group::Rollout,
        quick: false,
        why: "A request that was sent whole and got no response may have been done or not: the client cannot know, and a \
              user sees an error.",
        how: "Clients send numbered requests to --url before, during and after the command of --rollout. Each request \
              that was sent whole on an open connection must get a whole response.",
        applies: "With --rollout.",
        threshold: |_| Threshold::Count(0, "requests lost"),
        hints: &[
            (
                "any",
                "let the old instance finish what it has accepted, and accept what waits in its queue, before it ends: drill \
                 it alone with `adieu drill --http URL -- COMMAND`, which says which request it loses",
            ),
            (
                "Kubernetes",
                "a pod gets SIGTERM while the endpoints still name it: a preStop sleep or a lame duck of a few seconds; \
                 minReadySeconds and a readiness probe that is true only when the new pod serves",
            ),
            (
                "keep-alive connections",
                "the old instance closes idle connections at the moment in which the balancer sends on them: let it answer \
                 with `Connection: close` first, or the balancer retry on a new connection",
            ),
            (
                "docker compose",
                "`up -d` stops the old container before it starts the new one: put a balancer before two replicas and \
                 replace one after the other",
            ),
        ],
    },
    CheckInfo {
        id: "rollout-refused",
        group: Group::Rollout,
        quick: false,
        why: "A connection that is refused in a roll-out is a moment in which the deployment has no instance.",
        how: "While the command of --rollout runs, each new connection must be made, and each request be sent whole.",
        applies: "With --rollout.",
        threshold: |_| Threshold::Count(0, "connections refused"),
        hints: &[
            (
                "any",
                "start the new instance before the old one is stopped, and stop the old one when the new one is ready",
            ),
            (
                "one host",
                "let something hold the listening socket: `adieu run --listen`, or systemd's socket activation",
            ),
            (
                "Kubernetes",
                "maxUnavailable: 0 and maxSurge: 1, with more than one replica",
            ),
        ],
    },
    CheckInfo {
        id: "rollout-errors",
        group: Group::Rollout,
        quick: false,
        why: "502, 503 and 504 in a roll-out are requests that a balancer had no instance for, or lost to one.",
        how: "While the command of --rollout runs, no response may blame the server with a 5xx.",
        applies: "With --rollout.",
        threshold: |_| Threshold::Count(0, "5xx responses"),
        hints: &[
            (
                "502, 504",
                "the balancer sent to an instance that was gone: take it out of the balancer before it stops",
            ),
            (
                "503",
                "the instance answers while it stops: refuse nothing that was accepted, fail the readiness probe instead",
            ),
        ],
    },
    CheckInfo {
        id: "rollout-gap",
        group: Group::Rollout,
        quick: false,
        why: "The longest time in which no client was answered is how long the deployment was away.",
        how: "From the start of the command on, two good responses must never be further apart than this.",
        applies: "With --rollout. Too low a --rate makes gaps of its own: at 1 request a second each is a second.",
        threshold: |_| Threshold::Time(Duration::from_secs(1)),
        hints: &[(
            "any",
            "overlap the old and the new instance; where that cannot be, hold the socket, so that clients wait and are not \
             refused",
        )],
    },
    CheckInfo {
        id: "rollout-p99",
        group: Group::Rollout,
        quick: false,
        why: "Where nothing is lost clients may still wait: for a cold cache, for the one instance that is left.",
        how: "99 of 100 requests answered during the roll-out must be answered within this time, counted from when they \
              were due.",
        applies: "With --rollout.",
        threshold: |_| Threshold::Time(Duration::from_secs(1)),
        hints: &[(
            "any",
            "warm the new instance before its readiness probe says yes; have one instance more while it rolls",
        )],
    },
    CheckInfo {
        id: "rollout-settles",
        group: Group::Rollout,
        quick: false,
        why: "When the command says that it is done, it should be: a pipeline goes on from there.",
        how: "After the end of the command every request must be answered well for as long as --steady says; the time from \
              the end of the command to the beginning of that stretch is measured.",
        applies: "With --rollout.",
        threshold: |_| Threshold::Time(Duration::from_secs(10)),
        hints: &[(
            "any",
            "let the command wait until the roll-out is over: `kubectl rollout status`, `docker compose up -d --wait`",
        )],
    },
];

/// What is demanded, in the order of the checks.
pub(super) fn thresholds(set: &[(String, String)]) -> Result<Vec<Threshold>, String> {
    crate::check::thresholds_of(&ALL, set, "--rollout")
}

/// Judges all roll-outs of a drill. A failure that rests on time alone is none of a drill that did not have the processor.
pub(super) fn judge(
    runs: &[RolloutRun],
    lost: Option<Interval>,
    thresholds: &[Threshold],
    starved: Option<Duration>,
    took: Duration,
) -> Vec<Check> {
    let mut judged = Vec::new();
    for (info, threshold) in ALL.into_iter().zip(thresholds) {
        let mut verdict = match info.id {
            "rollout-lost" => count(runs, threshold, "lost", lost, |run| run.during.totals.lost),
            "rollout-refused" => count(runs, threshold, "refused", None, |run| {
                run.during.totals.refused
            }),
            "rollout-errors" => count(runs, threshold, "answered with 5xx", None, |run| {
                run.during.totals.errors
            }),
            "rollout-gap" => gap(runs, threshold),
            "rollout-p99" => p99(runs, threshold),
            _ => settles(runs, threshold),
        };
        let by_time = !matches!(threshold, Threshold::Count(..));
        if let Some(late) = starved
            && by_time
            && verdict.outcome == Outcome::Failed
        {
            verdict.outcome = Outcome::Skipped;
            verdict.reason = format!(
                "not judged: the machine was so busy that the drill itself came {} late; what was seen: {}",
                show(late),
                verdict.reason
            );
        }
        judged.push(Check {
            id: info.id.to_owned(),
            group: info.group,
            why: info.why.to_owned(),
            outcome: verdict.outcome,
            reason: verdict.reason,
            evidence: verdict.evidence,
            threshold: Some(threshold.to_string()),
            measured: Some(verdict.measured),
            hint: (verdict.outcome == Outcome::Failed).then(|| hints::all(info.hints)),
            // All of them are judged by the same traffic: its time is reported once.
            duration_ms: match judged.is_empty() {
                true => u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                false => 0,
            },
            repeats: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        });
    }
    judged
}

struct Judged {
    outcome: Outcome,
    reason: String,
    evidence: Vec<String>,
    measured: String,
}

impl Judged {
    fn new(passed: bool, reason: String, measured: String) -> Self {
        let outcome = if passed {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Self {
            outcome,
            reason,
            evidence: Vec::new(),
            measured,
        }
    }
}

/// `in the roll-out`, `in 5 roll-outs`.
fn in_runs(runs: &[RolloutRun]) -> String {
    match runs.len() {
        1 => "in the roll-out".to_owned(),
        many => format!("in {many} roll-outs"),
    }
}

fn count(
    runs: &[RolloutRun],
    threshold: &Threshold,
    what: &str,
    interval: Option<Interval>,
    of: impl Fn(&RolloutRun) -> u64,
) -> Judged {
    let total: u64 = runs.iter().map(&of).sum();
    let all: u64 = runs.iter().map(|run| run.during.totals.all()).sum();
    let worst = runs.iter().map(&of).max().unwrap_or_default();
    let mut reason = format!("{total} of {all} requests {what} {}", in_runs(runs));
    if runs.len() > 1 {
        let each: Vec<String> = runs.iter().map(|run| of(run).to_string()).collect();
        reason.push_str(&format!(" ({} each)", each.join(", ")));
    }
    if let Some(interval) = interval {
        let share = 1.0 - 0.05_f64.powf(1.0 / runs.len() as f64);
        reason.push_str(&match total {
            0 => format!(
                "; a loss in {:.0} % of all roll-outs or more would have been seen with 95 % probability",
                share * 100.0
            ),
            _ => format!(
                "; {:.1} on average, {:.1} to {:.1} with 95 % confidence",
                interval.mean, interval.low, interval.high
            ),
        });
    }
    // With nothing sent nothing can be said.
    if all == 0 {
        let mut judged = Judged::new(false, String::new(), "nothing".to_owned());
        judged.outcome = Outcome::Skipped;
        judged.reason =
            "no request met the roll-out: the command was over before the next one was due; raise --rate".to_owned();
        return judged;
    }
    let mut judged = Judged::new(
        worst <= threshold.count(),
        reason,
        format!("{total} {what}"),
    );
    if judged.outcome == Outcome::Failed {
        judged.evidence = evidence(runs, what);
    }
    judged
}

/// The groups of failures that this is about.
fn evidence(runs: &[RolloutRun], what: &str) -> Vec<String> {
    let fits = |line: &&String| {
        let refused = line.contains(" refused,") || line.contains(" not sent whole,");
        let error = line.contains(" answered 5");
        match what {
            "refused" => refused,
            "lost" => !refused && !error,
            _ => error,
        }
    };
    let mut lines = Vec::new();
    for (run, number) in runs.iter().zip(1..) {
        let of = match runs.len() {
            1 => String::new(),
            _ => format!("roll-out {number}: "),
        };
        let these = run.failures.iter().filter(fits).take(6);
        lines.extend(these.map(|line| format!("{of}{line}")));
    }
    lines.truncate(12);
    lines
}

fn ms(value: f64) -> String {
    show(Duration::from_secs_f64(value.max(0.0) / 1_000.0))
}

fn worst(runs: &[RolloutRun], of: impl Fn(&RolloutRun) -> f64) -> Option<&RolloutRun> {
    runs.iter().max_by(|one, two| of(one).total_cmp(&of(two)))
}

fn gap(runs: &[RolloutRun], threshold: &Threshold) -> Judged {
    let Some(run) = worst(runs, |run| run.largest_gap.took_ms) else {
        return Judged::new(true, "no roll-out".to_owned(), String::new());
    };
    let gap = &run.largest_gap;
    let reason = format!(
        "for at most {} no request was answered well, from {:.2} s on, {}",
        ms(gap.took_ms),
        gap.at_ms / 1_000.0,
        gap.after
    );
    let passed = gap.took_ms <= threshold.time().as_secs_f64() * 1_000.0;
    Judged::new(passed, reason, ms(gap.took_ms))
}

fn p99(runs: &[RolloutRun], threshold: &Threshold) -> Judged {
    let Some(run) = worst(runs, |run| run.during.p99_ms) else {
        return Judged::new(true, "no roll-out".to_owned(), String::new());
    };
    let reason = format!(
        "99 of 100 requests were answered within {} during the roll-out, {} before it and {} after it",
        ms(run.during.p99_ms),
        ms(run.before.p99_ms),
        ms(run.after.p99_ms)
    );
    let passed = run.during.p99_ms <= threshold.time().as_secs_f64() * 1_000.0;
    Judged::new(passed, reason, ms(run.during.p99_ms))
}

fn settles(runs: &[RolloutRun], threshold: &Threshold) -> Judged {
    if runs.iter().any(|run| run.steady_ms.is_none()) {
        let reason = "the traffic was not steady again in the time that --within gives".to_owned();
        return Judged::new(false, reason, "never".to_owned());
    }
    let late = |run: &RolloutRun| run.steady_ms.unwrap_or_default() - run.command_ms;
    let slowest = worst(runs, late).map_or(0.0, late);
    let reason = match slowest {
        ..=0.0 => "every request was answered well from the end of the command on".to_owned(),
        _ => format!(
            "the last bad answer came {} after the end of the command",
            ms(slowest)
        ),
    };
    let passed = slowest <= threshold.time().as_secs_f64() * 1_000.0;
    Judged::new(passed, reason, ms(slowest))
}
