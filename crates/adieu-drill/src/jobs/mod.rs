//! Workers with a ledger: numbered jobs are enqueued, workers are stopped at random instants, and what was done is held
//! against what was asked.
//!
//! The queue is any: a command enqueues, another one prints what was done. Before the first stop a batch of jobs is done in
//! peace, which shows that both commands and the worker do what they are said to do; an error then gives no verdict.

mod account;
mod checks;
mod ledger;
mod schedule;
mod session;
mod workers;

use std::time::{Duration, Instant};

use account::Account;
use checks::Facts;
pub use checks::jobs_checks;
use session::{Session, Worked};

use crate::check::CheckInfo;
use crate::drill::Drill;
use crate::error::DrillError;
use crate::process::{Ready, Reaper};
use crate::progress::Event;
use crate::report::{JobsReport, JobsStop, Recommendation, Report, Target};
use crate::scratch;
use crate::starvation::StarvationMonitor;

/// The ledger is read whole each time.
const MOST_JOBS: u64 = 1_000_000;
const MOST_WORKERS: u32 = 64;
const MOST_STOPS: u32 = 1_000;
/// For each stop, and before the first one, so many jobs at least.
const JOBS_A_STOP: u64 = 2;

/// What *lost* means here.
const DEFINITION: &str = "A job counts as lost only if its --enqueue command ended with 0 and the ledger never had it as done.";

/// Workers about to be drilled.
///
/// ```no_run
/// # async fn example() -> Result<(), adieu_drill::DrillError> {
/// use adieu_drill::{Drill, Jobs, report::Verdict};
///
/// let worker = Drill::command(["celery", "-A", "shop", "worker"]);
/// let report = Jobs::new(worker, 2_000, "python3 enqueue.py {from} {to}", "redis-cli lrange done 0 -1")
///     .workers(3)
///     .kill()
///     .run()
///     .await?;
/// assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `run`"]
pub struct Jobs {
    drill: Drill,
    setting: JobsSetting,
}

/// How jobs are enqueued and workers stopped.
#[derive(Clone, Debug)]
struct JobsSetting {
    jobs: u64,
    enqueue: String,
    done: String,
    workers: u32,
    stops: u32,
    kill: bool,
    lease: Duration,
    within: Duration,
}

impl Jobs {
    /// This worker, with so many jobs. `enqueue` is a shell command in which `{from}` and `{to}` are replaced by the first
    /// and the last number of the jobs that it is to enqueue. `done` is one that prints a line for each job that was done.
    pub fn new(
        mut drill: Drill,
        jobs: u64,
        enqueue: impl Into<String>,
        done: impl Into<String>,
    ) -> Self {
        if drill.address.is_none() && drill.ready == Ready::Answers {
            drill.ready = Ready::Started;
        }
        Self {
            drill,
            setting: JobsSetting {
                jobs,
                enqueue: enqueue.into(),
                done: done.into(),
                workers: 2,
                stops: 10,
                kill: false,
                lease: Duration::from_secs(30),
                within: Duration::from_secs(30),
            },
        }
    }

    /// So many workers at a time. 2 if left out.
    pub const fn workers(mut self, workers: u32) -> Self {
        self.setting.workers = workers;
        self
    }

    /// So many stops. 10 if left out.
    pub const fn stops(mut self, stops: u32) -> Self {
        self.setting.stops = stops;
        self
    }

    /// Every second stop is by SIGKILL, as of a machine that fails.
    pub const fn kill(mut self) -> Self {
        self.setting.kill = true;
        self
    }

    /// How long a job may belong to a worker that is gone (the visibility timeout of the queue): after the last stop the drill
    /// waits as long for jobs that come back. 30 s if left out.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.setting.lease = lease;
        self
    }

    /// How long each run of the two commands may take. 30 s if left out.
    pub const fn within(mut self, within: Duration) -> Self {
        self.setting.within = within;
        self
    }

    /// Whether what was asked for makes sense, without starting anything.
    ///
    /// # Errors
    ///
    /// With what does not, and what to do.
    pub fn validate(&self) -> Result<(), DrillError> {
        // Its thresholds are those of other checks.
        let mut drill = self.drill.clone();
        drill.thresholds.clear();
        drill.validate()?;
        let sensible = self.setting.sensible();
        let sensible = sensible.and_then(|()| checks::thresholds(&self.drill.thresholds).map(drop));
        sensible.map_err(DrillError::Usage)
    }

    /// Enqueues the jobs and stops the workers. Needs a tokio runtime with time and I/O. Dropped before its end, it kills
    /// every process it started.
    ///
    /// # Errors
    ///
    /// If what was asked for makes no sense, a worker cannot be started, or one of the commands does not do what it is said
    /// to do.
    pub async fn run(self) -> Result<Report, DrillError> {
        self.validate()?;
        let drill = &self.drill;
        let thresholds = checks::thresholds(&drill.thresholds).map_err(DrillError::Usage)?;
        let seed = drill.seed.unwrap_or_else(|| fastrand::u64(..));
        let scratch = scratch::directory()?;
        let begun = Instant::now();
        let target = Target {
            name: drill.target_name(),
            command: drill.launch.command.clone(),
            address: String::new(),
        };
        let mut report = Report::new(target, seed, drill.level);
        report.definition = DEFINITION.to_owned();
        let ids: Vec<&str> = jobs_checks().map(CheckInfo::id).collect();
        drill.progress.on(Event::Planned {
            checks: &ids,
            report: &report,
        });
        let _reaper = Reaper::new();
        let monitor = StarvationMonitor::start();
        monitor.begin();
        let session = Session::new(drill, &self.setting, scratch.path())?;
        let worked = session.work(seed).await?;
        let stops: Vec<_> = worked.stops.iter().map(|it| it.seen.stop.clone()).collect();
        let account = Account::of(self.setting.jobs, &worked.entries, &stops);
        let asked = worked.stops.iter().filter(|it| it.seen.stop.asked);
        let slowest = asked
            .filter(|it| !it.seen.stop.killed)
            .map(|it| it.seen.took)
            .max();
        let facts = Facts {
            account: &account,
            stops: &stops,
            with_work: worked.stops.iter().filter(|it| it.left > 0).count(),
            slowest,
            waited: self.setting.patience(),
            starved: monitor.starved(),
            took: begun.elapsed(),
        };
        for check in checks::judge(&facts, &thresholds) {
            drill.progress.on(Event::Finished { check: &check });
            report.checks.push(check);
        }
        report.recommendation = slowest.map(Recommendation::from_worst);
        report.jobs = Some(self.told(&worked, &account));
        report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.starvation = monitor.starvation();
        report.judge();
        Ok(report)
    }

    fn told(&self, worked: &Worked, account: &Account) -> JobsReport {
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        let stops = worked.stops.iter().enumerate().map(|(at, it)| {
            let in_flight = account.stops.get(at);
            JobsStop {
                worker: it.seen.stop.worker.clone(),
                signal: match it.seen.stop.asked {
                    true => self.drill.signal.to_string(),
                    false => "SIGKILL".to_owned(),
                },
                at_ms: ms(it.seen.signal.saturating_duration_since(worked.begun)),
                took_ms: ms(it.seen.took),
                end: it.seen.end.clone(),
                left: it.left,
                in_flight: in_flight.map(account::JobsInFlight::all),
                finished: in_flight.map(|here| here.finished.len() as u64),
            }
        });
        let waits = account.waits.iter().filter_map(|wait| wait.seconds);
        JobsReport {
            enqueue: self.setting.enqueue.clone(),
            done: self.setting.done.clone(),
            asked: account.asked,
            workers: self.setting.workers,
            lease_ms: ms(self.setting.lease),
            lost: account.lost.len() as u64,
            twice: account.twice.len() as u64,
            again_after_kill: account.again_after_kill.len() as u64,
            followed: account.followed,
            longest_wait_ms: waits
                .max_by(f64::total_cmp)
                .map(|seconds| seconds * 1_000.0),
            ended_alone: worked.ended_alone.clone(),
            stops: stops.collect(),
        }
    }
}

impl JobsSetting {
    fn sensible(&self) -> Result<(), String> {
        let placed = |name| self.enqueue.contains(name);
        if !placed("{from}") || !placed("{to}") {
            return Err(
                "--enqueue: it needs {from} and {to}, the first and the last number of the jobs that it enqueues: \
                 --enqueue 'python3 enqueue.py {from} {to}'"
                    .to_owned(),
            );
        }
        if self.done.trim().is_empty() {
            return Err("--done: no command; it prints a line for each job that was done, which begins with its number".to_owned());
        }
        if self.workers == 0 || self.workers > MOST_WORKERS {
            return Err(format!("--workers: at least 1 and at most {MOST_WORKERS}"));
        }
        if self.stops == 0 || self.stops > MOST_STOPS {
            return Err(format!("--stops: at least 1 and at most {MOST_STOPS}"));
        }
        let fewest = JOBS_A_STOP * (u64::from(self.stops) + 1);
        if self.jobs < fewest || self.jobs > MOST_JOBS {
            return Err(format!(
                "--jobs: at least {fewest} for {} stops ({JOBS_A_STOP} for each, and before the first), and at most {MOST_JOBS}",
                self.stops
            ));
        }
        if self.lease.is_zero() || self.within.is_zero() {
            return Err("--lease and --within must be longer than nothing".to_owned());
        }
        Ok(())
    }

    /// What was not done after so long without any progress is not done any more.
    fn patience(&self) -> Duration {
        self.lease + self.lease / 2 + Duration::from_secs(5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(count: u64) -> Jobs {
        Jobs::new(Drill::command(["worker"]), count, "q {from} {to}", "cat l")
    }

    fn refused(jobs: &Jobs) -> String {
        jobs.validate().expect_err("no sense").to_string()
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_to_do() {
        jobs(22)
            .validate()
            .expect("two for each of ten stops, and before");
        jobs(MOST_JOBS).validate().expect("the most");
        for (wrong, words) in [
            (jobs(21), "--jobs: at least 22 for 10 stops"),
            (jobs(MOST_JOBS + 1), "at most 1000000"),
            (jobs(100).stops(0), "--stops: at least 1"),
            (
                jobs(100).stops(1_001),
                "--stops: at least 1 and at most 1000",
            ),
            (jobs(100).workers(0), "--workers: at least 1"),
            (jobs(100).workers(65), "at most 64"),
            (jobs(100).lease(Duration::ZERO), "--lease and --within"),
            (jobs(100).within(Duration::ZERO), "--lease and --within"),
            (
                Jobs::new(Drill::command(["w"]), 100, "q {from}", "l"),
                "needs {from} and {to}",
            ),
            (
                Jobs::new(Drill::command(["w"]), 100, "q {from} {to}", " "),
                "--done: no command",
            ),
            (
                Jobs::new(Drill::command([""; 0]), 100, "q {from} {to}", "l"),
                "no program",
            ),
            (
                Jobs::new(
                    Drill::command(["w"]).threshold("exit-code", "0"),
                    100,
                    "q {from} {to}",
                    "l",
                ),
                "not a check of --jobs",
            ),
        ] {
            let why = refused(&wrong);
            assert!(why.contains(words), "{why}");
        }
    }
}
