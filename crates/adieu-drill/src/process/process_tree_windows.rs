//! All processes that come from one program, wherever they went: on Windows, those of its job.
//!
//! Every process that a process of the job starts is in the job too. The program is put into it right after its start; what it
//! has started before that moment is not.

use tokio::process::Child;

use super::system::{Handle, Pid, Signal};
use crate::sys::Job;

/// A process of the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcInfo {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

impl ProcInfo {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "elsewhere not every number is one"
    )]
    pub(crate) const fn id(&self) -> Option<Pid> {
        Some(self.pid)
    }

    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it may be gone")]
    pub(super) const fn handle(&self) -> Option<Handle> {
        Some(Handle::open(self.pid))
    }
}

/// The name of the variable that marks a run.
pub(crate) const MARK: &str = "ADIEU_DRILL_RUN";

/// With a job, no process has to adopt orphans.
#[derive(Debug)]
pub(crate) struct Reaper;

impl Reaper {
    pub(crate) const fn new() -> Self {
        Self
    }
}

/// A command of our own and what it starts. Dropped, the processes left in it are ended with the job.
#[derive(Debug)]
pub(crate) struct HelperProcess {
    _job: Option<Job>,
}

impl HelperProcess {
    pub(crate) fn new(child: &Child, _: Pid, _: String) -> Self {
        let job = child.raw_handle().and_then(|handle| Job::of(handle).ok());
        Self { _job: job }
    }
}

/// The processes of one run. Dropped, the processes that are left are ended.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    root: Pid,
    /// None where the system does not allow one; then only the program itself can be ended.
    job: Option<Job>,
}

impl ProcessTree {
    pub(crate) fn new(child: &Child, root: Pid, _: String, _alone: bool) -> Self {
        let job = child.raw_handle().and_then(|handle| Job::of(handle).ok());
        Self { root, job }
    }

    /// All living processes, the root included.
    pub(crate) fn living(&self) -> Vec<ProcInfo> {
        let pids = self.job.as_ref().map(Job::processes).unwrap_or_default();
        pids.into_iter()
            .map(|pid| ProcInfo {
                pid,
                name: "process".to_owned(),
            })
            .collect()
    }

    /// All processes but the root.
    pub(crate) fn others(&self) -> Vec<ProcInfo> {
        let mut others = self.living();
        others.retain(|one| one.pid != self.root);
        others
    }

    /// Ends all of them, if that is the signal; there is no other that could be sent to each.
    pub(crate) fn signal(&self, signal: Signal) {
        if signal == Signal::KILL
            && let Some(job) = &self.job
        {
            job.end();
        }
    }

    /// Ctrl-Break goes to the group in any case.
    pub(crate) fn signal_group(&self, signal: Signal) {
        Handle::open(self.root).send(signal);
        self.signal(signal);
    }
}
