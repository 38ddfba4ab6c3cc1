//! Asking the command how it is: over HTTP, by connecting, or with a command.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::command::ChildCommand;
use super::process_tree::{Process, ProcessTree};
use super::signals::Signal;
use crate::health::{self, Statuses, Target};

/// One way to ask.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    kind: ProbeKind,
    timeout: Duration,
}

#[derive(Clone, Debug)]
enum ProbeKind {
    Http(Target),
    Tcp(Target),
    Command(OsString),
}

impl Probe {
    pub(super) fn http(url: &str, timeout: Duration) -> Result<Self, String> {
        Target::url(url).map(|target| Self {
            kind: ProbeKind::Http(target),
            timeout,
        })
    }

    pub(super) fn tcp(address: &str, timeout: Duration) -> Result<Self, String> {
        Target::address(address).map(|target| Self {
            kind: ProbeKind::Tcp(target),
            timeout,
        })
    }

    pub(super) fn command(command: &str, timeout: Duration) -> Self {
        Self {
            kind: ProbeKind::Command(command.into()),
            timeout,
        }
    }

    /// Its name in health responses and logs. Its URL or command may hold a password, and is never shown.
    pub(super) const fn name(&self) -> &'static str {
        match self.kind {
            ProbeKind::Http(_) => "probe http",
            ProbeKind::Tcp(_) => "probe tcp",
            ProbeKind::Command(_) => "probe command",
        }
    }

    /// The socket that it connects to.
    pub(super) const fn target(&self) -> Option<&Target> {
        match &self.kind {
            ProbeKind::Http(target) | ProbeKind::Tcp(target) => Some(target),
            ProbeKind::Command(_) => None,
        }
    }

    /// Its question to a process itself, in the place of the front that forwards to any.
    pub(super) fn moved_to(&self, place: Result<&Path, u16>) -> Self {
        Self {
            kind: match &self.kind {
                ProbeKind::Http(target) => ProbeKind::Http(target.moved_to(place)),
                ProbeKind::Tcp(target) => ProbeKind::Tcp(target.moved_to(place)),
                ProbeKind::Command(command) => ProbeKind::Command(command.clone()),
            },
            timeout: self.timeout,
        }
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks once. Dropped half-way, a command is killed; a connection ends by itself when its time is up.
    pub(super) async fn ask(&self, processes: &Arc<ProcessTree>) -> Result<(), String> {
        match &self.kind {
            ProbeKind::Http(target) | ProbeKind::Tcp(target) => {
                let (shown, asked, timeout) = (target.to_string(), target.clone(), self.timeout);
                let asking = move || health::ask(&asked, &Statuses::good(), timeout);
                match tokio::task::spawn_blocking(asking).await {
                    Ok(answer) => {
                        let without =
                            |why: health::Unhealthy| why.to_string().replace(&shown, self.name());
                        answer.map(drop).map_err(without)
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
            ProbeKind::Command(command) => self.call(command, processes).await,
        }
    }

    async fn call(&self, command: &OsString, processes: &Arc<ProcessTree>) -> Result<(), String> {
        let words = ["sh".into(), "-c".into(), command.clone()];
        let command = ChildCommand::new(&words, processes.environment(), Vec::new());
        let process = command
            .and_then(|command| processes.spawn(&command))
            .map_err(|error| format!("the probe cannot be started: {error}"))?;
        let _killed = KillOnDrop(process.clone());
        let end = tokio::time::timeout(self.timeout, process.ended())
            .await
            .map_err(|_| format!("the probe took longer than {:?}", self.timeout))?;
        if end.how.is_success() {
            Ok(())
        } else {
            Err(format!("the probe {}", end.how))
        }
    }
}

/// Its group is its own, so what it has started goes with it.
struct KillOnDrop(Process);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.send(Signal::KILL, true);
    }
}
