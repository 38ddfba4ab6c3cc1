//! The jobs from the first to the last, and the stops between them.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::JobsSetting;
use super::ledger::{self, Entry, ranges};
use super::schedule;
use super::workers::{Stopped, Workers};
use crate::drill::Drill;
use crate::error::DrillError;
use crate::process::{Placeholders, helper_command};
use crate::progress::Event;
use crate::running;
use crate::threshold::show;

/// A ledger says nothing by itself: it is asked at this pace, and not more than half of the time.
const LEDGER_INTERVAL: Duration = Duration::from_millis(50);
/// A batch that takes longer does not make the time between two stops longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A queue looks for leases that are over now and then.
const LEASE_CHECK_MARGIN: Duration = Duration::from_secs(1);

/// Everything needed while jobs are enqueued and done.
pub(super) struct Session<'d> {
    drill: &'d Drill,
    setting: &'d JobsSetting,
    scratch: &'d Path,
    placeholders: Placeholders,
    /// So many jobs were enqueued so far.
    enqueued: u64,
}

/// A stop, and how many jobs there were left to do.
pub(super) struct StopWithWork {
    pub(super) seen: Stopped,
    pub(super) left: u64,
}

/// What was seen.
pub(super) struct Worked {
    pub(super) begun: Instant,
    pub(super) entries: Vec<Entry>,
    pub(super) stops: Vec<StopWithWork>,
    pub(super) ended_alone: Vec<String>,
}

impl<'d> Session<'d> {
    pub(super) fn new(
        drill: &'d Drill,
        setting: &'d JobsSetting,
        scratch: &'d Path,
    ) -> Result<Self, DrillError> {
        Ok(Self {
            drill,
            setting,
            scratch,
            placeholders: running::placeholders(scratch)?,
            enqueued: 0,
        })
    }

    /// From the empty ledger to the last job.
    pub(super) async fn work(mut self, seed: u64) -> Result<Worked, DrillError> {
        let check = "jobs-lost";
        let steps = Some(u64::from(self.setting.stops));
        self.drill.progress.on(Event::Started { check, steps });
        // Whatever is there before is not of this drill; none is enqueued, so each line is a stranger.
        self.ask().await?;
        let begun = Instant::now();
        let mut workers = Workers::start(self.drill, self.scratch, self.setting.workers).await?;
        let mut batches = schedule::batches(self.setting.jobs, self.setting.stops).into_iter();
        let mut pause = match batches.next() {
            Some(first) => self.in_peace(&workers, *first.end()).await?,
            None => Duration::ZERO,
        };
        let mut stops = Vec::new();
        let planned = schedule::stops(
            seed,
            self.setting.stops,
            self.setting.workers,
            self.setting.kill,
        );
        for ((planned, batch), done) in planned.into_iter().zip(batches).zip(1..) {
            self.enqueue(*batch.end()).await?;
            sleep(pause.mul_f64(planned.share)).await;
            workers.revive().await?;
            let stop = workers.stop(planned.worker, planned.kill);
            let (seen, left) = tokio::join!(stop, self.left());
            let left = left?;
            if left == 0 {
                // They were quicker than the first time.
                pause /= 2;
            }
            let doing = format!("stop {done} of {}", self.setting.stops);
            let step = Event::Step {
                check,
                done,
                doing: &doing,
            };
            self.drill.progress.on(step);
            stops.extend(seen.map(|seen| StopWithWork { seen, left }));
            workers.restart(planned.worker).await?;
        }
        let last_stop = Instant::now();
        let all = self.until_done(&mut workers).await?;
        if all {
            // A job that was done and not acknowledged comes back when its lease is over, and is done a second time.
            let lease = self.setting.lease + self.setting.lease / 4 + LEASE_CHECK_MARGIN;
            sleep(lease.saturating_sub(last_stop.elapsed())).await;
        }
        let ended_alone = std::mem::take(&mut workers.ended_alone);
        workers.end().await;
        Ok(Worked {
            begun,
            entries: self.ask().await?,
            stops,
            ended_alone,
        })
    }

    /// Enqueues the first batch, and waits until it is done: how long that took. What is wrong now was not caused by a stop.
    async fn in_peace(&mut self, workers: &Workers<'_>, last: u64) -> Result<Duration, DrillError> {
        // One alone shows that a worker is there and works.
        self.enqueue(1).await?;
        self.done_in_peace(workers).await?;
        self.enqueue(last).await?;
        // From here on the time to a stop counts, too.
        let begun = Instant::now();
        self.done_in_peace(workers).await?;
        Ok(begun.elapsed().min(LONGEST_PAUSE))
    }

    async fn done_in_peace(&self, workers: &Workers<'_>) -> Result<(), DrillError> {
        let mut quiet = Quiet::new();
        loop {
            workers.all_live()?;
            let entries = self.ask().await?;
            let counts = Counts::of(&entries, self.enqueued);
            if let Some((job, times)) = counts.twice.first() {
                return Err(self.wrong(
                    workers,
                    format!(
                        "job {job} is in the ledger {times} times, before the first stop; does --enqueue enqueue it twice, or --done \
                         print it twice?"
                    ),
                ));
            }
            if counts.missing.is_empty() {
                return Ok(());
            }
            if quiet.lasts(entries.len()) > self.setting.patience() {
                let which = ranges(&counts.missing, 5);
                return Err(self.wrong(
                    workers,
                    format!(
                        "of jobs 1 to {} these were never done, though no worker was stopped: {which}; does --enqueue enqueue \
                         {{from}} to {{to}} with both ends, and --done print the number of each job? Jobs that take longer than {}: \
                         say so with --lease",
                        self.enqueued,
                        show(self.setting.patience())
                    ),
                ));
            }
            quiet.pause().await;
        }
    }

    fn wrong(&self, workers: &Workers<'_>, reason: String) -> DrillError {
        DrillError::start(reason, workers.last_lines(0))
    }

    /// Waits until each job is done; false if nothing more is done.
    async fn until_done(&self, workers: &mut Workers<'_>) -> Result<bool, DrillError> {
        let mut quiet = Quiet::new();
        loop {
            workers.revive().await?;
            let entries = self.ask().await?;
            if Counts::of(&entries, self.enqueued).missing.is_empty() {
                return Ok(true);
            }
            if quiet.lasts(entries.len()) > self.setting.patience() {
                return Ok(false);
            }
            quiet.pause().await;
        }
    }

    /// How many jobs are enqueued and not done.
    async fn left(&self) -> Result<u64, DrillError> {
        let entries = self.ask().await?;
        Ok(Counts::of(&entries, self.enqueued).missing.len() as u64)
    }

    /// Enqueues all up to this one.
    async fn enqueue(&mut self, last: u64) -> Result<(), DrillError> {
        let first = self.enqueued + 1;
        if first > last {
            return Ok(());
        }
        let line = self
            .placeholders
            .fill(&self.setting.enqueue)
            .replace("{from}", &first.to_string())
            .replace("{to}", &last.to_string());
        // Also while it runs they may be done.
        self.enqueued = last;
        self.command("--enqueue", &line).await.map(drop)
    }

    /// Reads the ledger.
    async fn ask(&self) -> Result<Vec<Entry>, DrillError> {
        let line = self.placeholders.fill(&self.setting.done);
        let printed = self.command("--done", &line).await?;
        ledger::read(&printed, self.enqueued)
            .map_err(|why| DrillError::start(format!("--done `{line}`: {why}"), Vec::new()))
    }

    async fn command(&self, option: &str, line: &str) -> Result<String, DrillError> {
        let cwd = self.drill.launch.cwd.as_deref();
        let ran = helper_command::run_within(line, cwd, self.setting.within).await;
        ran.map_err(|why| {
            let next = match option {
                "--done" if self.enqueued == 0 => {
                    "; it is asked before the first job, too: then it prints nothing and ends with 0"
                }
                _ => "",
            };
            DrillError::start(format!("{option} {why}{next}"), Vec::new())
        })
    }
}

/// Asking again and again, and since when all answers are the same.
struct Quiet {
    count: usize,
    since: Instant,
    asked: Instant,
}

impl Quiet {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            count: 0,
            since: now,
            asked: now,
        }
    }

    /// How long there have been so many entries.
    fn lasts(&mut self, count: usize) -> Duration {
        if count != self.count {
            (self.count, self.since) = (count, Instant::now());
        }
        self.since.elapsed()
    }

    /// As long again as it took to ask.
    async fn pause(&mut self) {
        sleep(self.asked.elapsed().max(LEDGER_INTERVAL)).await;
        self.asked = Instant::now();
    }
}

/// What is missing, and what is there more than once.
struct Counts {
    missing: Vec<u64>,
    twice: Vec<(u64, u64)>,
}

impl Counts {
    fn of(entries: &[Entry], enqueued: u64) -> Self {
        let account = super::Account::of(enqueued, entries, &[]);
        Self {
            missing: account.lost,
            twice: account.twice,
        }
    }
}
