//! What is demanded of workers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::account::{Account, Stop};
use super::ledger::ranges;
use crate::check::{CheckInfo, hints};
use crate::report::{Check, Group, Outcome};
use crate::threshold::{Threshold, show};

/// All checks of workers, in the order in which they are shown.
pub fn jobs_checks() -> impl Iterator<Item = CheckInfo> {
    ALL.iter().copied()
}

const ALL: [CheckInfo; 6] = [
    CheckInfo {
        id: "jobs-lost",
        group: Group::Jobs,
        quick: false,
        why: "A job that left the queue and was not done is gone: no retry brings it back, and no error is logged.",
        how: "Numbered jobs are enqueued, workers are stopped at random instants and started again. In the end each job must \
              be in the ledger of --done.",
        applies: "With --jobs. Skipped if the queue was empty at every stop.",
        threshold: |_| Threshold::Count(0, "jobs lost"),
        hints: &[
            (
                "any",
                "acknowledge a job after its effect is durable, not when it is received; give it back on a stop",
            ),
            (
                "Celery",
                "task_acks_late = True and task_reject_on_worker_lost = True; on Redis also a visibility_timeout longer than the \
                 longest task; SIGTERM to the main process only, not to its children",
            ),
            (
                "Redis lists",
                "LMOVE to a list of the worker, and LREM after the job: what LPOP and BRPOP have taken dies with the worker",
            ),
            (
                "RabbitMQ",
                "manual acknowledgements (no_ack=False), durable queues and persistent messages",
            ),
            (
                "adieu",
                "the queues of adieu return what they have not begun, and lease what they have: docs/queues.md",
            ),
        ],
    },
    CheckInfo {
        id: "jobs-twice",
        group: Group::Jobs,
        quick: false,
        why: "A job that is done again at each deployment sends its mail again at each deployment.",
        how: "No job may be in the ledger twice. One that was done by a worker that then got SIGKILL, and done again by the \
              next, is counted apart: no queue can prevent that, only a handler that is idempotent.",
        applies: "With --jobs. Skipped if the queue was empty at every stop.",
        threshold: |_| Threshold::Count(0, "jobs done twice"),
        hints: &[
            (
                "any",
                "acknowledge at once after the job is done, also during a stop; where that can fail, let the handler be \
                 idempotent: an insert with the number of the job as its key",
            ),
            (
                "queues",
                "a lease that is longer than the longest job, or one that the worker extends while it works",
            ),
            (
                "Celery",
                "on Redis a task that takes longer than visibility_timeout (1 h) is delivered again while it runs",
            ),
        ],
    },
    CheckInfo {
        id: "jobs-in-flight",
        group: Group::Jobs,
        quick: false,
        why: "A job that is cut in the middle is done again from its beginning, with half of its effects already there.",
        how: "Each job that a worker has begun when it gets the stop signal must be finished by that worker before it ends.",
        applies: "With --jobs, if the ledger has the start of each job, with its time and its worker.",
        threshold: |_| Threshold::Count(0, "jobs cut at the stop signal"),
        hints: &[
            (
                "any",
                "on SIGTERM take no new job, finish the one in flight, then end; the grace period must be longer than a job",
            ),
            (
                "long jobs",
                "save a checkpoint and give the job back, and allow it: --threshold jobs-in-flight=1000",
            ),
            (
                "arq",
                "cancels jobs on SIGTERM; job_completion_wait gives them time",
            ),
        ],
    },
    CheckInfo {
        id: "jobs-two-at-once",
        group: Group::Jobs,
        quick: false,
        why: "Two workers that do one job at the same time overwrite each other's work.",
        how: "While a worker does a job, no other may begin it: its lease must hold until it is done.",
        applies: "With --jobs, if the ledger has the start of each job, with its time and its worker.",
        threshold: |_| Threshold::Count(0, "jobs of two workers at once"),
        hints: &[(
            "queues",
            "a lease (visibility timeout) longer than the longest job, or one that is extended while the worker works, also \
             during its stop",
        )],
    },
    CheckInfo {
        id: "jobs-wait",
        group: Group::Jobs,
        quick: false,
        why: "A job of a worker that is gone waits until its lease is over: an hour with the defaults of some queues.",
        how: "A job that a stopped worker did not finish must be begun by another one within this time after its end.",
        applies: "With --jobs, if the ledger has the start of each job, with its time and its worker, and one was cut.",
        threshold: |_| Threshold::Time(Duration::from_secs(60)),
        hints: &[(
            "any",
            "give unfinished jobs back on a stop (nack, return, release); for a crash, a short lease that is extended while \
             the worker works",
        )],
    },
    CheckInfo {
        id: "jobs-exit",
        group: Group::Jobs,
        quick: false,
        why: "A worker that outlives the grace period gets SIGKILL, with its job in flight.",
        how: "Each worker that gets the stop signal must end by itself within --grace.",
        applies: "With --jobs.",
        threshold: |_| Threshold::Count(0, "workers killed after the grace period"),
        hints: &[
            (
                "any",
                "handle SIGTERM, also while waiting for a job; do not begin another job after it",
            ),
            (
                "containers",
                "a worker that is PID 1 without a handler ignores SIGTERM: `adieu run -- COMMAND`, or `docker run --init`",
            ),
        ],
    },
];

/// What is demanded, in the order of the checks.
pub(super) fn thresholds(set: &[(String, String)]) -> Result<Vec<Threshold>, String> {
    crate::check::thresholds_of(&ALL, set, "--jobs")
}

/// All that there is to judge.
pub(super) struct Facts<'f> {
    pub(super) account: &'f Account,
    pub(super) stops: &'f [Stop],
    /// At so many of them the queue was not empty.
    pub(super) with_work: usize,
    /// The slowest stop that was not cut.
    pub(super) slowest: Option<Duration>,
    /// How long the drill waited for jobs that did not come.
    pub(super) waited: Duration,
    /// The drill itself was late by so much.
    pub(super) starved: Option<Duration>,
    pub(super) took: Duration,
}

struct JobsVerdict {
    outcome: Outcome,
    reason: String,
    evidence: Vec<String>,
    measured: Option<String>,
}

impl JobsVerdict {
    fn of(passed: bool, reason: String, evidence: Vec<String>, measured: String) -> Self {
        let outcome = match passed {
            true => Outcome::Passed,
            false => Outcome::Failed,
        };
        Self {
            outcome,
            reason,
            evidence,
            measured: Some(measured),
        }
    }

    fn skipped(reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Skipped,
            reason: reason.into(),
            evidence: Vec::new(),
            measured: None,
        }
    }
}

const NOT_FOLLOWED: &str = "the ledger does not say of each job when it was begun and by whom; print `17 start 1767225600.25 w1-1` \
                            and `17 done 1767225601.5 w1-1`: the number, the time in seconds since 1970, and the variable \
                            ADIEU_DRILL_WORKER of the worker";
const NO_WORK: &str = "the queue was empty at every stop, so nothing could be lost; enqueue more --jobs, or longer ones";
/// So many lines of evidence.
const MOST_LINES: usize = 6;

/// Judges the account.
pub(super) fn judge(facts: &Facts<'_>, thresholds: &[Threshold]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (info, threshold) in ALL.into_iter().zip(thresholds) {
        let verdict = match info.id {
            "jobs-lost" => lost(facts, threshold),
            "jobs-twice" => twice(facts, threshold),
            "jobs-in-flight" => in_flight(facts, threshold),
            "jobs-two-at-once" => two_at_once(facts, threshold),
            "jobs-wait" => wait(facts, threshold),
            _ => exit(facts, threshold),
        };
        checks.push(Check {
            id: info.id.to_owned(),
            group: info.group,
            why: info.why.to_owned(),
            outcome: verdict.outcome,
            reason: verdict.reason,
            evidence: verdict.evidence,
            threshold: Some(threshold.to_string()),
            measured: verdict.measured,
            hint: (verdict.outcome == Outcome::Failed).then(|| hints::all(info.hints)),
            // All of them are judged by the same stops: their time is reported once.
            duration_ms: match checks.is_empty() {
                true => u64::try_from(facts.took.as_millis()).unwrap_or(u64::MAX),
                false => 0,
            },
            repeats: u32::try_from(facts.stops.len()).unwrap_or(u32::MAX),
        });
    }
    checks
}

fn lost(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let account = facts.account;
    let count = account.lost.len() as u64;
    if count == 0 && facts.with_work == 0 {
        return JobsVerdict::skipped(NO_WORK);
    }
    let mut reason = format!("{count} of {} jobs lost{}", account.asked, over(facts));
    let mut evidence = Vec::new();
    if count > 0 {
        reason.push_str(&format!(
            "; nothing more was done for {}",
            show(facts.waited)
        ));
        evidence.push(format!("never done: {}", ranges(&account.lost, 12)));
        let mut left = account.lost.clone();
        for (stop, cut) in facts.stops.iter().zip(&account.stops) {
            let of_it: Vec<u64> = cut
                .cut
                .iter()
                .filter(|job| account.lost.contains(job))
                .copied()
                .collect();
            if !of_it.is_empty() && evidence.len() < MOST_LINES {
                evidence.push(format!(
                    "{} had begun {} when it got {}",
                    stop.worker,
                    jobs(&of_it),
                    signal(stop)
                ));
            }
            left.retain(|job| !of_it.contains(job));
        }
        if account.followed && !left.is_empty() {
            evidence.push(format!(
                "not in flight at any stop: {}; taken from the queue in advance, or never in it",
                jobs(&left)
            ));
        }
    }
    JobsVerdict::of(
        count <= threshold.count(),
        reason,
        evidence,
        format!("{count} lost"),
    )
}

fn twice(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let account = facts.account;
    let count = account.twice.len() as u64;
    if count == 0 && facts.with_work == 0 {
        return JobsVerdict::skipped(NO_WORK);
    }
    let mut reason = format!(
        "{count} of {} jobs done more than once{}",
        account.asked,
        over(facts)
    );
    let again = account.again_after_kill.len();
    if again > 0 {
        reason.push_str(&format!(
            "; {again} more after SIGKILL, which only an idempotent handler can make up for"
        ));
    }
    let mut by_count: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (job, count) in &account.twice {
        by_count.entry(*count).or_default().push(*job);
    }
    let mut evidence: Vec<String> = by_count
        .iter()
        .take(MOST_LINES)
        .map(|(count, these)| format!("done {count} times: {}", jobs(these)))
        .collect();
    if count > 0 && !account.followed && facts.stops.iter().any(|it| it.killed) {
        evidence.push(format!(
            "which of them follow a SIGKILL is not known: {NOT_FOLLOWED}"
        ));
    }
    JobsVerdict::of(
        count <= threshold.count(),
        reason,
        evidence,
        format!("{count} twice"),
    )
}

fn in_flight(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let account = facts.account;
    if !account.followed {
        return JobsVerdict::skipped(NOT_FOLLOWED);
    }
    let asked = || {
        let stops = facts.stops.iter().zip(&account.stops);
        stops.filter(|(stop, _)| stop.asked)
    };
    let all: u64 = asked().map(|(_, here)| here.all()).sum();
    let cut: u64 = asked().map(|(_, here)| here.cut.len() as u64).sum();
    if all == 0 {
        return JobsVerdict::skipped("no worker had a job in flight when it got the stop signal");
    }
    let evidence = asked().filter(|(_, here)| !here.cut.is_empty());
    let evidence = evidence.take(MOST_LINES).map(|(stop, here)| {
        format!(
            "{} ended {} after {} without {}",
            stop.worker,
            show(Duration::from_secs_f64((stop.ended - stop.at).max(0.0))),
            signal(stop),
            jobs(&here.cut)
        )
    });
    JobsVerdict::of(
        cut <= threshold.count(),
        format!(
            "{} of {all} jobs in flight at the stop signal were finished by their worker",
            all - cut
        ),
        evidence.collect(),
        format!("{cut} cut"),
    )
}

fn two_at_once(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let account = facts.account;
    if !account.followed {
        return JobsVerdict::skipped(NOT_FOLLOWED);
    }
    let count = account.overlaps.len() as u64;
    let evidence = account.overlaps.iter().take(MOST_LINES).map(|it| {
        format!(
            "job {}: {} began it {} after {}, which was still at it and did it, too",
            it.job,
            it.second,
            show(Duration::from_secs_f64(it.after.max(0.0))),
            it.first
        )
    });
    JobsVerdict::of(
        count <= threshold.count(),
        format!("{count} times a job was begun while another worker was at it"),
        evidence.collect(),
        format!("{count} at once"),
    )
}

fn wait(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let account = facts.account;
    if !account.followed {
        return JobsVerdict::skipped(NOT_FOLLOWED);
    }
    // Those that were never begun again are lost, and told there.
    let known = account
        .waits
        .iter()
        .filter_map(|it| Some((it, it.seconds?)));
    let Some((longest, seconds)) = known.max_by(|one, two| one.1.total_cmp(&two.1)) else {
        return JobsVerdict::skipped(match account.waits.is_empty() {
            true => "every stopped worker finished what it had begun, so nothing had to wait",
            false => "no job of a stopped worker was begun again",
        });
    };
    let worker = facts.stops.get(longest.stop);
    let worker = worker.map_or("", |stop| stop.worker.as_str());
    let time = Duration::from_secs_f64(seconds);
    let reason = format!(
        "the longest wait: job {} was begun again {} after the end of {worker}",
        longest.job,
        show(time)
    );
    let late = time > threshold.time();
    if let Some(starved) = facts.starved.filter(|_| late) {
        return JobsVerdict::skipped(format!(
            "not judged: the machine was so busy that the drill itself came {} late; what was seen: {reason}",
            show(starved)
        ));
    }
    JobsVerdict::of(!late, reason, Vec::new(), show(time))
}

fn exit(facts: &Facts<'_>, threshold: &Threshold) -> JobsVerdict {
    let cut: Vec<&Stop> = facts
        .stops
        .iter()
        .filter(|it| it.asked && it.killed)
        .collect();
    let asked = facts.stops.iter().filter(|it| it.asked).count();
    if asked == 0 {
        return JobsVerdict::skipped("no worker got the stop signal");
    }
    let reason = match (cut.len(), facts.slowest) {
        (0, Some(slowest)) => format!(
            "each of {asked} stopped workers ended by itself, the slowest after {}",
            show(slowest)
        ),
        (some, _) => format!(
            "{some} of {asked} stopped workers were still there at the end of the grace period"
        ),
    };
    let evidence = cut.iter().take(MOST_LINES);
    let evidence = evidence.map(|stop| {
        let after = Duration::from_secs_f64((stop.ended - stop.at).max(0.0));
        format!(
            "{} got SIGKILL, {} after the stop signal",
            stop.worker,
            show(after)
        )
    });
    JobsVerdict::of(
        cut.len() as u64 <= threshold.count(),
        reason,
        evidence.collect(),
        format!("{} killed", cut.len()),
    )
}

/// ` over 10 stops, 2 of them with an empty queue`.
fn over(facts: &Facts<'_>) -> String {
    let (all, idle) = (facts.stops.len(), facts.stops.len() - facts.with_work);
    let stops = if all == 1 { "stop" } else { "stops" };
    match idle {
        0 => format!(" over {all} {stops}"),
        _ => format!(" over {all} {stops}, {idle} of them with an empty queue"),
    }
}

fn jobs(numbers: &[u64]) -> String {
    let word = if numbers.len() == 1 { "job" } else { "jobs" };
    format!("{word} {}", ranges(numbers, 8))
}

fn signal(stop: &Stop) -> &'static str {
    match (stop.asked, stop.killed) {
        (true, false) => "the stop signal",
        (true, true) => "the stop signal, and SIGKILL later",
        (false, _) => "SIGKILL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::ledger;

    fn stop(worker: &str, asked: bool, killed: bool) -> Stop {
        Stop {
            worker: worker.to_owned(),
            killed,
            asked,
            at: 10.0,
            ended: 11.0,
        }
    }

    struct Told {
        checks: Vec<Check>,
    }

    impl Told {
        fn of(
            asked: u64,
            printed: &str,
            stops: &[Stop],
            with_work: usize,
            set: &[(&str, &str)],
        ) -> Self {
            let entries = ledger::read(printed, asked).expect("a ledger");
            let account = Account::of(asked, &entries, stops);
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(id, value)| ((*id).to_owned(), (*value).to_owned()))
                .collect();
            let facts = Facts {
                account: &account,
                stops,
                with_work,
                slowest: Some(Duration::from_millis(40)),
                waited: Duration::from_secs(7),
                starved: None,
                took: Duration::from_secs(20),
            };
            let checks = judge(&facts, &thresholds(&set).expect("thresholds"));
            Self { checks }
        }

        #[track_caller]
        fn is(&self, id: &str, outcome: Outcome, words: &[&str]) {
            let check = self.checks.iter().find(|check| check.id == id).expect(id);
            assert_eq!(check.outcome, outcome, "{check:?}");
            let told = format!("{} {}", check.reason, check.evidence.join(" "));
            for words in words {
                assert!(told.contains(words), "no `{words}` in {told}");
            }
            assert_eq!(check.hint.is_some(), outcome == Outcome::Failed);
            assert_eq!(check.measured.is_none(), outcome == Outcome::Skipped);
        }
    }

    use Outcome::{Failed, Passed, Skipped};

    #[test]
    fn all_done_once_passes_and_what_is_not_known_is_skipped() {
        let told = Told::of(2, "1\n2\n", &[stop("w1-1", true, false)], 1, &[]);
        told.is("jobs-lost", Passed, &["0 of 2 jobs lost over 1 stop"]);
        told.is("jobs-twice", Passed, &["0 of 2 jobs"]);
        for id in ["jobs-in-flight", "jobs-two-at-once", "jobs-wait"] {
            told.is(
                id,
                Skipped,
                &["17 start 1767225600.25 w1-1", "ADIEU_DRILL_WORKER"],
            );
        }
        told.is("jobs-exit", Passed, &["each of 1 stopped workers", "40 ms"]);
    }

    #[test]
    fn stops_of_idle_workers_prove_nothing() {
        let idle = [stop("w1-1", true, false)];
        let told = Told::of(2, "1\n2\n", &idle, 0, &[]);
        told.is("jobs-lost", Skipped, &["empty at every stop"]);
        told.is("jobs-twice", Skipped, &["empty at every stop"]);
        // What is seen is seen all the same.
        let told = Told::of(2, "1\n1\n", &idle, 0, &[]);
        told.is(
            "jobs-lost",
            Failed,
            &["1 of 2 jobs lost over 1 stop, 1 of them with an empty queue"],
        );
        told.is("jobs-twice", Failed, &["done 2 times: job 1"]);
    }

    #[test]
    fn a_loss_is_told_with_the_stop_that_caused_it() {
        let printed = "1 start 9 w1-1\n3 start 9 w2-1\n3 done 9.5 w2-1\n";
        let stops = [stop("w1-1", true, false)];
        let told = Told::of(4, printed, &stops, 1, &[]);
        told.is(
            "jobs-lost",
            Failed,
            &[
                "3 of 4 jobs lost",
                "nothing more was done for 7.00 s",
                "never done: 1-2, 4",
                "w1-1 had begun job 1 when it got the stop signal",
                "not in flight at any stop: jobs 2, 4",
            ],
        );
        told.is(
            "jobs-in-flight",
            Failed,
            &[
                "0 of 1 jobs",
                "w1-1 ended 1.00 s after the stop signal without job 1",
            ],
        );
        told.is("jobs-wait", Skipped, &["begun again"]);
        let told = Told::of(
            4,
            printed,
            &stops,
            1,
            &[("jobs-lost", "3"), ("jobs-in-flight", "1")],
        );
        told.is("jobs-lost", Passed, &[]);
        told.is("jobs-in-flight", Passed, &[]);
    }

    #[test]
    fn a_kill_excuses_a_double_and_a_cut_and_no_loss() {
        let printed = "1 start 8 w1-1\n1 done 9 w1-1\n2 start 9 w1-1\n1 start 12 w1-2\n1 done 13 w1-2\n\
                       2 start 80 w1-2\n2 done 81 w1-2\n";
        let told = Told::of(3, printed, &[stop("w1-1", false, true)], 1, &[]);
        told.is("jobs-twice", Passed, &["1 more after SIGKILL"]);
        told.is(
            "jobs-in-flight",
            Skipped,
            &["no worker had a job in flight"],
        );
        told.is("jobs-lost", Failed, &["never done: 3"]);
        told.is(
            "jobs-wait",
            Failed,
            &["job 2 was begun again 69.0 s after the end of w1-1"],
        );
        told.is("jobs-exit", Skipped, &[]);
        let told = Told::of(
            3,
            printed,
            &[stop("w1-1", false, true)],
            1,
            &[("jobs-wait", "2m")],
        );
        told.is("jobs-wait", Passed, &[]);
    }

    #[test]
    fn a_worker_that_had_to_be_killed_is_named() {
        let stops = [stop("w1-1", true, true), stop("w2-1", true, false)];
        let told = Told::of(1, "1\n1\n", &stops, 2, &[]);
        told.is(
            "jobs-exit",
            Failed,
            &["1 of 2 stopped workers", "w1-1 got SIGKILL, 1.00 s after"],
        );
        told.is(
            "jobs-twice",
            Failed,
            &["which of them follow a SIGKILL is not known"],
        );
    }

    #[test]
    fn two_at_once_and_the_lease_that_was_too_short() {
        let printed = "1 start 1 w1-1\n1 start 3 w2-1\n1 done 4 w1-1\n1 done 6 w2-1\n";
        let told = Told::of(1, printed, &[stop("w1-1", true, false)], 1, &[]);
        told.is(
            "jobs-two-at-once",
            Failed,
            &["job 1: w2-1 began it 2.00 s after w1-1"],
        );
    }

    #[test]
    fn a_threshold_of_another_kind_of_drill_is_refused() {
        let set = vec![("rollout-lost".to_owned(), "1".to_owned())];
        let why = thresholds(&set).expect_err("no such check");
        assert!(
            why.contains("not a check of --jobs; these are: jobs-lost"),
            "{why}"
        );
    }
}
