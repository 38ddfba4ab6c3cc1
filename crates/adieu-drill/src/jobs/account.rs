//! What was done, held against what was asked: no clock, no process, only the ledger and the stops.

use std::collections::BTreeMap;

use super::ledger::{Entry, Step};

/// A stop of a worker, as the drill saw it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stop {
    /// `ADIEU_DRILL_WORKER` of the process that was stopped.
    pub(super) worker: String,
    /// It got SIGKILL: at once, or at the end of the grace period.
    pub(super) killed: bool,
    /// It got the stop signal first.
    pub(super) asked: bool,
    /// Seconds since 1970.
    pub(super) at: f64,
    /// When it was gone, the same.
    pub(super) ended: f64,
}

/// One time that a worker worked on a job.
#[derive(Clone, Debug, PartialEq)]
struct Execution<'e> {
    worker: &'e str,
    start: f64,
    done: Option<f64>,
}

/// The whole account.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    pub(super) asked: u64,
    /// Jobs that were never done, in order.
    pub(super) lost: Vec<u64>,
    /// Jobs that were done more than once, and how often.
    pub(super) twice: Vec<(u64, u64)>,
    /// Jobs that were done by a worker that then got SIGKILL, and done again. No queue without a common transaction can
    /// prevent that.
    pub(super) again_after_kill: Vec<u64>,
    /// Whether each line has its time and its worker, and jobs have a start; what follows is empty otherwise.
    pub(super) followed: bool,
    /// What was in flight at each stop.
    pub(super) stops: Vec<JobsInFlight>,
    /// Jobs that a stopped worker did not finish, and how long they waited for the next one.
    pub(super) waits: Vec<Wait>,
    /// Jobs that two workers had at one time.
    pub(super) overlaps: Vec<Overlap>,
}

/// The jobs that a worker had begun and not done when its stop was requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobsInFlight {
    pub(super) finished: Vec<u64>,
    pub(super) cut: Vec<u64>,
}

impl JobsInFlight {
    pub(super) fn all(&self) -> u64 {
        (self.finished.len() + self.cut.len()) as u64
    }
}

/// How long a job waited after the end of the worker that had it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) job: u64,
    /// Which of the stops it was, from 0.
    pub(super) stop: usize,
    /// None if no worker began it again.
    pub(super) seconds: Option<f64>,
}

/// A job that was begun again while it was being done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Overlap {
    pub(super) job: u64,
    pub(super) first: String,
    pub(super) second: String,
    /// How long after the first the second began.
    pub(super) after: f64,
}

impl Account {
    /// Jobs 1 to `asked` were enqueued.
    pub(super) fn of(asked: u64, entries: &[Entry], stops: &[Stop]) -> Self {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.step == Step::Done) {
            *times.entry(entry.job).or_default() += 1;
        }
        let mut account = Self {
            asked,
            lost: (1..=asked).filter(|job| !times.contains_key(job)).collect(),
            followed: followed(entries),
            ..Self::default()
        };
        let executions = match account.followed {
            true => executions(entries),
            false => BTreeMap::new(),
        };
        for (job, count) in times.into_iter().filter(|(_, count)| *count > 1) {
            let first = executions.get(&job).and_then(|all| first_done(all));
            let killed = |worker: &str| stops.iter().any(|it| it.killed && it.worker == worker);
            // Once for the worker that was killed, and once for the next: more is of another cause.
            match first {
                Some(worker) if count == 2 && killed(worker) => account.again_after_kill.push(job),
                _ => account.twice.push((job, count)),
            }
        }
        if account.followed {
            account.follow(&executions, stops);
        }
        account
    }

    fn follow(&mut self, executions: &BTreeMap<u64, Vec<Execution<'_>>>, stops: &[Stop]) {
        self.stops = vec![JobsInFlight::default(); stops.len()];
        for (&job, all) in executions {
            for (at, one) in all.iter().enumerate() {
                let next = all.get(at + 1..).unwrap_or_default().iter();
                let mut next = next.filter(|next| next.worker != one.worker);
                let stop = stops.iter().position(|it| it.worker == one.worker);
                if let Some((number, stop)) = stop.and_then(|at| Some((at, stops.get(at)?)))
                    && one.start <= stop.at
                    && one.done.is_none_or(|done| done > stop.at)
                {
                    let here = &mut self.stops[number];
                    match one.done {
                        Some(_) => here.finished.push(job),
                        None => {
                            here.cut.push(job);
                            self.waits.push(Wait {
                                job,
                                stop: number,
                                // Given back before the end, it may be begun before the end.
                                seconds: next
                                    .clone()
                                    .next()
                                    .map(|it| (it.start - stop.ended).max(0.0)),
                            });
                        }
                    }
                }
                // One without an end may have been given back: nothing says when.
                if let (Some(done), Some(second)) = (one.done, next.next())
                    && second.start < done
                {
                    self.overlaps.push(Overlap {
                        job,
                        first: one.worker.to_owned(),
                        second: second.worker.to_owned(),
                        after: second.start - one.start,
                    });
                }
            }
        }
    }
}

/// Whether the ledger says of each step when it was and whose.
fn followed(entries: &[Entry]) -> bool {
    let whole = |entry: &Entry| entry.at.is_some() && entry.worker.is_some();
    entries.iter().all(whole) && entries.iter().any(|entry| entry.step == Step::Start)
}

/// Each job's executions, in order of their start.
fn executions(entries: &[Entry]) -> BTreeMap<u64, Vec<Execution<'_>>> {
    let mut steps: Vec<(u64, f64, Step, &str)> = entries
        .iter()
        .filter_map(|it| Some((it.job, it.at?, it.step, it.worker.as_deref()?)))
        .collect();
    // At one instant a start comes before an end.
    let end = |step| step == Step::Done;
    steps.sort_by(|one, two| {
        let time = one.1.total_cmp(&two.1);
        one.0
            .cmp(&two.0)
            .then(time)
            .then(end(one.2).cmp(&end(two.2)))
    });
    let mut jobs: BTreeMap<u64, Vec<Execution<'_>>> = BTreeMap::new();
    for (job, at, step, worker) in steps {
        let all = jobs.entry(job).or_default();
        let open = all
            .iter_mut()
            .rfind(|it| it.worker == worker && it.done.is_none());
        match (step, open) {
            (Step::Done, Some(open)) => open.done = Some(at),
            (Step::Start, _) => all.push(Execution {
                worker,
                start: at,
                done: None,
            }),
            (Step::Done, None) => all.push(Execution {
                worker,
                start: at,
                done: Some(at),
            }),
        }
    }
    jobs
}

/// The worker that did it first.
fn first_done<'e>(all: &[Execution<'e>]) -> Option<&'e str> {
    let done = all.iter().filter(|it| it.done.is_some());
    done.min_by(|one, two| {
        one.done
            .unwrap_or_default()
            .total_cmp(&two.done.unwrap_or_default())
    })
    .map(|it| it.worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::ledger;

    fn stop(worker: &str, at: f64, ended: f64, killed: bool) -> Stop {
        Stop {
            worker: worker.to_owned(),
            killed,
            asked: !killed,
            at,
            ended,
        }
    }

    fn account(asked: u64, printed: &str, stops: &[Stop]) -> Account {
        let entries = ledger::read(printed, asked).expect("a ledger");
        Account::of(asked, &entries, stops)
    }

    #[test]
    fn each_job_once_is_no_loss_and_no_double() {
        let account = account(3, "2\n1\n3\n", &[]);
        assert_eq!((account.lost, account.twice), (vec![], vec![]));
        assert!(!account.followed);
    }

    #[test]
    fn what_is_missing_is_lost_and_what_is_there_twice_was_done_twice() {
        let account = account(6, "2\n2\n5\n5\n5\n1\n", &[]);
        assert_eq!(account.lost, [3, 4, 6]);
        assert_eq!(account.twice, [(2, 2), (5, 3)]);
        assert!(account.again_after_kill.is_empty());
    }

    #[test]
    fn a_start_is_not_an_end() {
        let account = account(1, "1 start 1.0 w1-1\n", &[]);
        assert_eq!(account.lost, [1]);
        assert!(account.followed);
    }

    #[test]
    fn one_line_without_time_or_worker_and_nothing_is_followed() {
        for printed in [
            "1 start 1.0 w1-1\n1\n",
            "1 start 1.0\n",
            "1 start\n",
            "1 done 1.0 w1-1\n",
            "",
        ] {
            let account = account(1, printed, &[stop("w1-1", 1.0, 2.0, false)]);
            assert!(!account.followed, "{printed}");
            assert!(account.stops.is_empty() && account.waits.is_empty());
        }
    }

    #[test]
    fn a_job_in_flight_is_finished_or_cut() {
        let printed = "1 start 1 w1-1\n1 done 2 w1-1\n2 start 3 w1-1\n2 done 6 w1-1\n3 start 3 w1-1\n\
                       3 start 9 w1-2\n3 done 10 w1-2\n4 start 3 w2-1\n4 done 8 w2-1\n5 start 5.5 w1-1\n5 done 6 w1-1\n";
        let account = account(5, printed, &[stop("w1-1", 5.0, 7.0, false)]);
        // Job 1 was over, job 4 another worker's, job 5 begun after the signal.
        let [here] = &account.stops[..] else {
            panic!("one stop")
        };
        assert_eq!((&here.finished[..], &here.cut[..]), (&[2][..], &[3][..]));
        assert_eq!(here.all(), 2);
        let wait = Wait {
            job: 3,
            stop: 0,
            seconds: Some(2.0),
        };
        assert_eq!(account.waits, [wait]);
        assert!(account.lost.is_empty() && account.twice.is_empty() && account.overlaps.is_empty());
    }

    #[test]
    fn a_job_that_no_worker_begins_again_waits_without_end() {
        let account = account(1, "1 start 1 w1-1\n", &[stop("w1-1", 2.0, 3.0, false)]);
        assert_eq!(account.waits[0].seconds, None);
        assert_eq!(account.lost, [1]);
    }

    #[test]
    fn a_job_given_back_before_the_end_did_not_wait() {
        let printed = "1 start 1 w1-1\n1 start 2.5 w2-1\n1 done 4 w2-1\n";
        let account = account(1, printed, &[stop("w1-1", 2.0, 3.0, false)]);
        assert_eq!(account.waits[0].seconds, Some(0.0));
        assert!(account.overlaps.is_empty());
    }

    #[test]
    fn a_job_of_two_workers_at_once_is_told_with_the_lease() {
        let printed = "1 start 1 w1-1\n1 start 3 w2-1\n1 done 4 w1-1\n1 done 6 w2-1\n";
        let account = account(1, printed, &[]);
        assert_eq!(
            account.overlaps,
            [Overlap {
                job: 1,
                first: "w1-1".to_owned(),
                second: "w2-1".to_owned(),
                after: 2.0,
            }]
        );
        assert_eq!(account.twice, [(1, 2)]);
    }

    #[test]
    fn one_after_the_other_are_not_at_once() {
        let printed = "1 start 1 w1-1\n1 done 3 w1-1\n1 start 3 w2-1\n1 done 4 w2-1\n";
        let account = account(1, printed, &[]);
        assert!(account.overlaps.is_empty());
        assert_eq!(account.twice, [(1, 2)]);
    }

    /// Done, killed before the acknowledgement, and done again by the next: at least once is kept.
    #[test]
    fn a_double_of_a_killed_worker_is_told_apart() {
        let printed = "1 start 1 w1-1\n1 done 2 w1-1\n1 start 5 w2-1\n1 done 6 w2-1\n";
        let killed = account(1, printed, &[stop("w1-1", 2.5, 2.6, true)]);
        assert_eq!(
            (&killed.twice[..], &killed.again_after_kill[..]),
            (&[][..], &[1][..])
        );
        // After SIGTERM it is the worker's fault, and after the kill of another, too.
        for stops in [
            &[stop("w1-1", 2.5, 2.6, false)],
            &[stop("w2-1", 7.0, 7.1, true)],
        ] {
            let account = account(1, printed, stops);
            assert_eq!(account.twice, [(1, 2)]);
        }
        let third = "1 start 8 w1-2\n1 done 9 w1-2\n";
        let thrice = account(
            1,
            &format!("{printed}{third}"),
            &[stop("w1-1", 2.5, 2.6, true)],
        );
        assert_eq!(thrice.twice, [(1, 3)]);
    }

    #[test]
    fn without_workers_a_double_is_a_double() {
        let account = account(1, "1\n1\n", &[stop("w1-1", 2.5, 2.6, true)]);
        assert_eq!(account.twice, [(1, 2)]);
    }

    /// A worker that begins a job twice, as after an error of its own, is one worker.
    #[test]
    fn a_worker_that_tries_again_is_not_two() {
        let printed = "1 start 1 w1-1\n1 start 2 w1-1\n1 done 3 w1-1\n";
        let account = account(1, printed, &[]);
        assert!(account.overlaps.is_empty() && account.twice.is_empty());
    }

    #[test]
    fn every_job_is_done_or_lost_and_never_both() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let asked = rng.u64(1..30);
            let mut printed = String::new();
            let mut truth = BTreeMap::new();
            for _ in 0..rng.u64(0..60) {
                let job = rng.u64(1..=asked);
                *truth.entry(job).or_insert(0_u64) += 1;
                printed.push_str(&format!("{job}\n"));
            }
            let account = account(asked, &printed, &[]);
            assert_eq!(
                account.lost.len() + truth.len(),
                usize::try_from(asked).unwrap()
            );
            let doubled: Vec<_> = truth.into_iter().filter(|(_, count)| *count > 1).collect();
            assert_eq!(account.twice, doubled);
        }
    }
}
