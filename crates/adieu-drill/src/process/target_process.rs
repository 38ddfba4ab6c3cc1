//! The program while it runs.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use super::launch::Launch;
use super::launch_mode::LaunchMode;
use super::output::Output;
use super::placeholders::Placeholders;
use super::process_tree::{ProcInfo, ProcessTree};
use super::ready::Ready;
use super::spawning::spawning;
use super::system::{self, Handle, Held, Notices, Signal};

/// A running program. Dropped, it and all its descendants are killed.
#[derive(Debug)]
#[must_use = "a program that is dropped is killed"]
pub(crate) struct TargetProcess {
    /// Leads the group.
    leader: Handle,
    /// Gets the signals in the place of the leader, if the form of the start put the program below it.
    below: Option<Handle>,
    pub(crate) started: Instant,
    pub(crate) placeholders: Placeholders,
    pub(crate) output: Output,
    pub(crate) notices: Option<Notices>,
    tree: Arc<ProcessTree>,
    ended: watch::Receiver<Option<Ended>>,
    /// Where it writes its own report, if it is one of ours.
    pub(crate) report: PathBuf,
}

/// How and when a program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    pub(crate) status: ExitStatus,
}

impl TargetProcess {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// If the system cannot run it.
    pub(crate) fn start(
        launch: &Launch,
        mode: &LaunchMode,
        handed: Option<&Arc<Held>>,
        placeholders: Placeholders,
        ready: &Ready,
        scratch: &std::path::Path,
    ) -> io::Result<Self> {
        let (mut command, mark) = launch.prepare(mode, handed, &placeholders);
        let report = scratch.join(format!("report-{mark}.json"));
        if !launch.env.iter().any(|(name, _)| name == "ADIEU_REPORT") {
            command.env("ADIEU_REPORT", &report);
        }
        let notices = match ready {
            Ready::Notify => {
                let notices = Notices::open(scratch.join(format!("notify-{mark}")))?;
                command.env("NOTIFY_SOCKET", &notices.path);
                Some(notices)
            }
            _ => {
                // Not ours to answer, and not meant for the program.
                command.env_remove("NOTIFY_SOCKET");
                None
            }
        };
        let registering = spawning();
        let mut child = command.spawn()?;
        let started = Instant::now();
        let leader = child
            .id()
            .and_then(system::pid)
            .ok_or(io::ErrorKind::NotFound)?;
        let tree = Arc::new(ProcessTree::new(&child, leader, mark, launch.alone));
        drop(registering);
        // Before anything waits for it: until then its number is its own.
        let leader = Handle::open(leader);
        let output = Output::new(match ready {
            Ready::Line(line) => Some(line),
            _ => None,
        });
        if let Some(pipe) = child.stdout.take() {
            tokio::spawn(output.clone().drink(pipe));
        }
        if let Some(pipe) = child.stderr.take() {
            tokio::spawn(output.clone().drink(pipe));
        }
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            if let Ok(status) = child.wait().await {
                let at = Instant::now();
                tell.send_replace(Some(Ended { at, status }));
            }
        });
        Ok(Self {
            leader,
            below: None,
            started,
            placeholders,
            output,
            notices,
            tree,
            ended,
            report,
        })
    }

    /// From now on signals go to the only child of the leader: the program below a wrapper that stays.
    pub(crate) async fn look_below(&mut self) -> io::Result<()> {
        let below = self.descendants().await;
        let child = below
            .iter()
            .min_by_key(|one| one.pid)
            .ok_or(io::ErrorKind::NotFound)?;
        self.below = Some(child.handle().ok_or(io::ErrorKind::NotFound)?);
        Ok(())
    }

    fn target(&self) -> &Handle {
        self.below.as_ref().unwrap_or(&self.leader)
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        *self.ended.borrow()
    }

    /// Waits for its end for so long. Cancel-safe.
    pub(crate) async fn ended_within(&self, patience: Duration) -> Option<Ended> {
        let mut ended = self.ended.clone();
        let waiting = ended.wait_for(Option::is_some);
        match timeout(patience, waiting).await {
            Ok(Ok(ended)) => *ended,
            Ok(Err(_)) | Err(_) => self.ended(),
        }
    }

    /// Sends it a signal, and says when. Gone already, it gets none; that shows elsewhere.
    pub(crate) fn signal(&self, signal: Signal) -> Instant {
        let at = Instant::now();
        if self.ended().is_none() {
            self.target().send(signal);
        }
        at
    }

    /// Whether the process that gets the signals is still there.
    pub(crate) async fn target_lives(&self) -> bool {
        let target = Some(self.target().pid);
        self.descendants()
            .await
            .iter()
            .any(|one| one.id() == target)
    }

    /// Sends a signal to the leader and to the program below it, and to no other process.
    pub(crate) fn signal_both(&self, signal: Signal) -> Instant {
        let at = Instant::now();
        if self.ended().is_none() {
            self.target().send(signal);
            self.leader.send(signal);
        }
        at
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal_group(&self, signal: Signal) -> Instant {
        let at = Instant::now();
        self.tree.signal_group(signal);
        at
    }

    /// Sends a signal to it and every descendant. Dropped before its end, it may still happen.
    pub(crate) async fn signal_all(&self, signal: Signal) {
        self.ask(move |tree| tree.signal(signal)).await;
    }

    /// Its descendants that live.
    pub(crate) async fn descendants(&self) -> Vec<ProcInfo> {
        self.ask(ProcessTree::others).await.unwrap_or_default()
    }

    /// A look at all processes of the machine takes its time; meanwhile clients are to be served.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&ProcessTree) -> T + Send + 'static,
    ) -> Option<T> {
        let tree = Arc::clone(&self.tree);
        tokio::task::spawn_blocking(move || what(&tree)).await.ok()
    }

    /// Ends it and all its descendants by force, and waits until the leader is gone.
    pub(crate) async fn kill(&self) {
        self.signal_all(Signal::KILL).await;
        // adieu: ignore(ADR102) one look at /proc between two signals to a process that must end now
        self.tree.signal_group(Signal::KILL);
        let _ = self.ended_within(Duration::from_secs(10)).await;
        // Orphans are ours now; the second look buries them.
        self.signal_all(Signal::KILL).await;
    }

    fn finish_off(&self) {
        self.tree.signal(Signal::KILL);
        self.tree.signal_group(Signal::KILL);
    }
}

impl Drop for TargetProcess {
    /// When this returns no process is left, or a second has passed: the process that drops a drill may end right after.
    fn drop(&mut self) {
        for _ in 0..200 {
            self.finish_off();
            if self.tree.living().is_empty() {
                break;
            }
            // The kernel takes a moment to end a process, and here nothing can be awaited.
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(notices) = &self.notices {
            let _ = std::fs::remove_file(&notices.path);
        }
        let _ = std::fs::remove_file(&self.report);
    }
}

/// `exit code 0`, `ended by SIGTERM`.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), system::ended_by(status)) {
        // What the system itself says is a large number there, and known by its hexadecimal form.
        (Some(code), _) if cfg!(windows) && code < 0 => format!("exit code {code:#x}"),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by {}", super::stop_signal::name(signal)),
        (None, None) => status.to_string(),
    }
}
