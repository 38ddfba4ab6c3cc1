//! Asking the command how it is: over HTTP, by connecting, or with a command.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::command::Command;
use super::family::Family;
use super::signals::Signal;
use super::sys;
use crate::health::{self, Statuses, Target};

/// One way to ask.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    kind: Kind,
    timeout: Duration,
}

#[derive(Clone, Debug)]
enum Kind {
    Socket(Target),
    Command(OsString),
}

impl Probe {
    pub(super) fn http(url: &str, timeout: Duration) -> Result<Self, String> {
        Target::url(url).map(|target| Self {
            kind: Kind::Socket(target),
            timeout,
        })
    }

    pub(super) fn tcp(address: &str, timeout: Duration) -> Result<Self, String> {
        Target::address(address).map(|target| Self {
            kind: Kind::Socket(target),
            timeout,
        })
    }

    pub(super) fn command(command: &str, timeout: Duration) -> Self {
        Self {
            kind: Kind::Command(command.into()),
            timeout,
        }
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks once. Dropped half-way, a command is killed; a connection ends by itself when its time is up.
    pub(super) async fn ask(&self, family: &Arc<Family>) -> Result<(), String> {
        match &self.kind {
            Kind::Socket(target) => {
                let (target, timeout) = (target.clone(), self.timeout);
                let asking = move || health::ask(&target, &Statuses::good(), timeout);
                match tokio::task::spawn_blocking(asking).await {
                    Ok(answer) => answer.map(drop).map_err(|why| why.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            }
            Kind::Command(command) => self.call(command, family).await,
        }
    }

    async fn call(&self, command: &OsString, family: &Arc<Family>) -> Result<(), String> {
        let words = ["sh".into(), "-c".into(), command.clone()];
        let command = Command::new(&words, family.environment(), Vec::new());
        let process = command
            .and_then(|command| family.spawn(&command))
            .map_err(|error| format!("the probe cannot be started: {error}"))?;
        let _killed = KillOnDrop(process.pid);
        let end = tokio::time::timeout(self.timeout, process.ended())
            .await
            .map_err(|_| format!("the probe took longer than {:?}", self.timeout))?;
        if end.how.is_good() {
            Ok(())
        } else {
            Err(format!("the probe {}", end.how))
        }
    }
}

/// Its group is its own, so what it has started goes with it.
struct KillOnDrop(u32);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        sys::kill_group(self.0, Signal::KILL);
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Socket(target) => target.fmt(f),
            Kind::Command(command) => write!(f, "`{}`", command.to_string_lossy()),
        }
    }
}
