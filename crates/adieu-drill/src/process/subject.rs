//! The program while it runs.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use super::form::Form;
use super::kin::{Family, Kin};
use super::launch::Launch;
use super::output::Output;
use super::ports::Blanks;
use super::ready::Ready;
use super::system::{self, Notices, Pid, Signal};

/// A running program. Dropped, it and all its descendants are killed.
#[derive(Debug)]
#[must_use = "a program that is dropped is killed"]
pub(crate) struct Subject {
    /// Leads the group.
    leader: Pid,
    /// Gets the signals: the leader, or whoever the form of the start put below it.
    target: Pid,
    pub(crate) started: Instant,
    pub(crate) blanks: Blanks,
    pub(crate) output: Output,
    pub(crate) notices: Option<Notices>,
    family: Arc<Family>,
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

impl Subject {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// If the system cannot run it.
    pub(crate) fn start(
        launch: &Launch,
        form: &Form,
        blanks: Blanks,
        ready: &Ready,
        scratch: &std::path::Path,
    ) -> io::Result<Self> {
        let (mut command, mark) = launch.prepare(form, &blanks);
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
        let mut child = command.spawn()?;
        let started = Instant::now();
        let leader = child
            .id()
            .and_then(system::pid)
            .ok_or(io::ErrorKind::NotFound)?;
        let family = Arc::new(Family::new(&child, leader, mark, launch.alone));
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
            target: leader,
            started,
            blanks,
            output,
            notices,
            family,
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
        self.target = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(())
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
            system::send(self.target, signal);
        }
        at
    }

    /// Whether the process that gets the signals is still there.
    pub(crate) async fn target_lives(&self) -> bool {
        let target = Some(self.target);
        self.descendants()
            .await
            .iter()
            .any(|one| one.id() == target)
    }

    /// Sends a signal to the leader and to the program below it, and to nobody else.
    pub(crate) fn signal_both(&self, signal: Signal) -> Instant {
        let at = Instant::now();
        if self.ended().is_none() {
            system::send(self.target, signal);
            system::send(self.leader, signal);
        }
        at
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal_group(&self, signal: Signal) -> Instant {
        let at = Instant::now();
        system::send_to_group(self.leader, signal);
        at
    }

    /// Sends a signal to it and every descendant. Dropped before its end, it may still happen.
    pub(crate) async fn signal_all(&self, signal: Signal) {
        self.ask(move |family| family.signal(signal)).await;
    }

    /// Its descendants that live.
    pub(crate) async fn descendants(&self) -> Vec<Kin> {
        self.ask(Family::others).await.unwrap_or_default()
    }

    /// A look at all processes of the machine takes its time; meanwhile clients are to be served.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Family) -> T + Send + 'static,
    ) -> Option<T> {
        let family = Arc::clone(&self.family);
        tokio::task::spawn_blocking(move || what(&family))
            .await
            .ok()
    }

    /// Ends it and all its descendants by force, and waits until the leader is gone.
    pub(crate) async fn kill(&self) {
        self.signal_all(Signal::KILL).await;
        if self.ended().is_none() {
            system::send_to_group(self.leader, Signal::KILL);
        }
        let _ = self.ended_within(Duration::from_secs(10)).await;
        // Orphans are ours now; the second look buries them.
        self.signal_all(Signal::KILL).await;
    }

    fn finish_off(&self) {
        self.family.signal(Signal::KILL);
        if self.ended().is_none() {
            system::send_to_group(self.leader, Signal::KILL);
        }
    }
}

impl Drop for Subject {
    /// When this returns nobody is left, or a second has passed: whoever drops a drill may end right after it.
    fn drop(&mut self) {
        for _ in 0..200 {
            self.finish_off();
            if self.family.living().is_empty() {
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
        (None, Some(signal)) => format!("ended by {}", crate::signal::name(signal)),
        (None, None) => status.to_string(),
    }
}
