//! What a check has to work with.

mod held;
mod open;
mod work;

pub(crate) use open::Opened;
pub(crate) use work::{Ledger, missing};

use std::path::Path;
use std::time::{Duration, Instant};

use adieu_load::Request;

use crate::capabilities::{Capabilities, upload};
use crate::check::Spec;
use crate::drill::Drill;
use crate::endpoint::Endpoint;
use crate::error::DrillError;
use crate::finding::Finding;
use crate::process::{Ended, LaunchMode};
use crate::progress::Event;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::Level;
use crate::running::{self, RunningTarget};
use crate::stop_log::{LoadKind, StopLog};
use crate::threshold::Threshold;

/// What a check has to work with.
pub(crate) struct CheckContext<'a> {
    pub(crate) drill: &'a Drill,
    pub(crate) scratch: &'a Path,
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) log: &'a mut StopLog,
    pub(crate) spec: &'static Spec,
    pub(crate) threshold: Threshold,
    pub(crate) rng: &'a mut fastrand::Rng,
    /// The ids of all checks that are run.
    pub(crate) planned: &'a [&'static str],
    /// Which try of the check this is, from 1.
    pub(crate) run: u32,
}

/// What to do about a program that does not end when it is idle.
const NEVER_ENDS: &str = "any: handle the stop signal and end in time; as PID 1, or below a shell that does not pass \
                          it on, the program may never get it (`exec` in a script, `adieu run` as the entry point)\n\
                          shell script: a trap is run only after the command in the foreground has ended: start it with \
                          `&` and `wait` for it";
/// How long a program that has nothing left to do is watched at most.
const IDLE_WATCH_LIMIT: Duration = Duration::from_secs(5);

impl CheckContext<'_> {
    /// Starts the program and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<RunningTarget, DrillError> {
        self.start_as(&LaunchMode::Plain).await
    }

    pub(crate) async fn start_as(&self, mode: &LaunchMode) -> Result<RunningTarget, DrillError> {
        running::start(self.drill, self.scratch, mode).await
    }

    /// Starts it and does not wait.
    pub(crate) fn launch(&self) -> Result<RunningTarget, DrillError> {
        let placeholders = running::placeholders(self.scratch)?;
        running::launch(self.drill, self.scratch, &LaunchMode::Plain, placeholders)
    }

    /// Whether this check is among those that are run.
    pub(crate) fn is_planned(&self, id: &str) -> bool {
        self.planned.contains(&id)
    }

    /// How long an idle stop takes: whatever the program does in any case, a lame duck included.
    pub(crate) fn idle_stop(&self) -> Duration {
        self.capabilities.idle_stop.unwrap_or_default()
    }

    /// Where the program is started.
    pub(crate) fn cwd(&self) -> Option<&Path> {
        self.drill.launch.cwd.as_deref()
    }

    /// How many times something is done at this level.
    pub(crate) const fn times(&self, quick: u32, normal: u32, full: u32) -> u32 {
        match self.drill.level {
            Level::Quick => quick,
            Level::Default => normal,
            Level::Full => full,
        }
    }

    /// Reports the progress of the check.
    pub(crate) fn step(&self, done: u64, doing: &str) {
        let check = self.spec.id;
        self.drill.progress.on(Event::Step { check, done, doing });
    }

    /// Gives the program something to keep, if it takes anything. The number tells it from all else it is given.
    pub(crate) async fn give_work(&self, run: &RunningTarget, number: u32) {
        let Some((endpoint, request)) = self.work(run, number) else {
            return;
        };
        // What becomes of it shows in what is kept.
        let _ = RawConn::ask_within(&endpoint, &request, ANSWER_TIMEOUT).await;
    }

    /// A request that changes something: an upload, or whatever is slow to be done, or what is asked all the time.
    fn work(&self, run: &RunningTarget, number: u32) -> Option<(Endpoint, Request)> {
        if !run.endpoint.is_http() {
            return None;
        }
        if let Some(path) = &self.capabilities.upload {
            let endpoint = run.endpoint.at(&run.process.placeholders.fill(path)).ok()?;
            let body = format!("adieu {}.{number}", self.run);
            let request = upload(&endpoint.request(), body.into_bytes());
            return Some((endpoint, request));
        }
        let slow = self.slow(run, Duration::ZERO);
        let slow = slow.filter(|request| request.method != "GET");
        let request = slow.unwrap_or_else(|| run.endpoint.request());
        Some((run.endpoint.clone(), request))
    }

    /// Waits for its end for as long as the platform would, and notes how long it took.
    pub(crate) async fn see_end(
        &mut self,
        run: &RunningTarget,
        signal: Instant,
        with: LoadKind,
    ) -> Option<Ended> {
        let left = self.drill.grace.saturating_sub(signal.elapsed());
        let ended = run.process.ended_within(left).await;
        let took = ended.map(|ended| (ended.at.saturating_duration_since(signal), ended.status));
        self.log.exit(self.spec.id, with, took);
        ended
    }

    /// Waits a moment for the end of a program that has nothing left to do: also this stop counts among the slowest.
    /// Whether it ends at all is another check's question.
    pub(crate) async fn see_out(&mut self, run: &RunningTarget, signal: Instant) -> Option<Ended> {
        let left = self.drill.grace.saturating_sub(signal.elapsed());
        let ended = run.process.ended_within(left.min(IDLE_WATCH_LIMIT)).await;
        self.note_end(signal, ended);
        ended
    }

    /// Notes how long a stop took that something was held against, if it came to its end.
    pub(crate) fn note_end(&mut self, signal: Instant, ended: Option<Ended>) {
        if let Some(ended) = ended {
            let took = ended.at.saturating_duration_since(signal);
            self.log
                .exit(self.spec.id, LoadKind::Hold, Some((took, ended.status)));
        }
    }

    /// Notes a stop that had no end within all the time it was given, with something held against it.
    pub(crate) fn note_endless(&mut self) {
        self.log.exit(self.spec.id, LoadKind::Hold, None);
    }

    /// What a check finds that needs a program which ends: that it had to be killed is a failure of its own.
    /// It is reported once: by the check that is about it, or by the first one if that is not selected. The others are skipped.
    pub(crate) fn killed_when_idle(&mut self) -> Finding {
        let about = ["exit-in-time", "exit-code"]
            .into_iter()
            .find(|id| self.is_planned(id));
        let about = about.or(self.log.told_endless).unwrap_or(self.spec.id);
        if about != self.spec.id {
            return Finding::skipped(format!(
                "it {} even when idle, so there is no stop to judge; see {about}",
                self.never_ended()
            ));
        }
        self.log.told_endless = Some(about);
        let kept = crate::threshold::show(self.drill.grace);
        Finding::late(format!(
            "it {} even when idle and had to be killed, so there is no stop to judge",
            self.never_ended()
        ))
        .shown([format!(
            "without a client connected: {}, and {kept} later it was still there; SIGKILL",
            self.drill.signal
        )])
        .measured("killed")
        .advising(NEVER_ENDS)
    }

    /// What a check finds whose own stop ended with SIGKILL.
    pub(crate) fn killed(&self, run: &RunningTarget, with: LoadKind) -> Finding {
        Finding::late(format!("it {} and had to be killed", self.never_ended()))
            .shown([format!("stopped {}: still there; SIGKILL", with.words())])
            .shown(run.last_lines(5))
            .measured("killed")
    }

    /// What a check finds whose only request was lost.
    pub(crate) fn one_lost(&self, finding: Finding) -> Finding {
        let finding = finding.measured("1 of 1 lost");
        match self.threshold.count() {
            0 => finding,
            _ => finding.allowed(),
        }
    }

    /// What a check finds that could not even open what it wants to hold against the stop.
    pub(crate) fn not_held(&self, open: usize, broken: &WireError) -> Finding {
        Finding::skipped(format!(
            "before any stop, with {open} connections open, a request failed: {broken}; does the program serve one \
             connection at a time?"
        ))
    }

    /// `did not end within 30 s of SIGTERM`.
    pub(crate) fn never_ended(&self) -> String {
        format!(
            "did not end within {} of {}",
            crate::threshold::show(self.drill.grace),
            self.drill.signal
        )
    }
}
