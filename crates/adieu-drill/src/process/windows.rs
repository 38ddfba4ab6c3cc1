//! Processes on Windows: there are no signals, and one event that can be sent to another group, Ctrl-Break.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::process::Command;

use crate::sys;

/// The number of a process; of the group as well that it leads.
pub(super) type Pid = u32;

/// What can be sent, and what can not; by the numbers that they have elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    pub(crate) const HUP: Self = Self(1);
    pub(crate) const INT: Self = Self(2);
    pub(crate) const QUIT: Self = Self(3);
    pub(crate) const ILL: Self = Self(4);
    pub(crate) const ABORT: Self = Self(6);
    pub(crate) const BUS: Self = Self(7);
    pub(crate) const FPE: Self = Self(8);
    pub(crate) const KILL: Self = Self(9);
    pub(crate) const USR1: Self = Self(10);
    pub(crate) const SEGV: Self = Self(11);
    pub(crate) const USR2: Self = Self(12);
    pub(crate) const PIPE: Self = Self(13);
    pub(crate) const ALARM: Self = Self(14);
    pub(crate) const TERM: Self = Self(15);
    pub(crate) const CONT: Self = Self(18);
    pub(crate) const STOP: Self = Self(19);
    /// As the C library of Windows numbers it.
    pub(crate) const BREAK: Self = Self(21);
    pub(crate) const WINCH: Self = Self(28);

    pub(crate) const fn as_raw(self) -> i32 {
        self.0
    }
}

/// There is none.
#[derive(Debug)]
pub(crate) struct Held(Infallible);

#[expect(
    clippy::unnecessary_wraps,
    reason = "elsewhere not every number is one"
)]
pub(super) const fn pid(id: u32) -> Option<Pid> {
    Some(id)
}

/// One process, by its number.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) pid: Pid,
}

impl Handle {
    pub(super) const fn open(pid: Pid) -> Self {
        Self { pid }
    }

    /// Only Ctrl-Break can be sent, and it goes to the group. To end a process by force is up to the job it is in.
    pub(super) fn send(&self, signal: Signal) {
        if signal == Signal::BREAK {
            let _ = sys::send_break(self.pid);
        }
    }
}

pub(super) fn own_group(command: &mut Command) {
    command.creation_flags(sys::flags());
}

/// Only Ctrl-Break can be sent to a group.
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    Handle::open(leader).send(signal);
}

pub(super) const fn is_root() -> bool {
    false
}

pub(crate) const fn ended_by(_: ExitStatus) -> Option<i32> {
    None
}

/// Why this check cannot be held on this system, if so.
pub(crate) fn not_here(check: &str) -> Option<&'static str> {
    Some(match check {
        "int-twice-forces" => {
            "Ctrl-C cannot be sent to another group of processes, and Ctrl-Break asks for a stop"
        }
        "signal-storm" => "there are no other signals on Windows",
        "group-signal" => "Ctrl-Break goes to the whole group in any case",
        "term-while-reloading" | "hup-keeps-serving" => "Windows has no SIGHUP",
        "deploy-unnoticed" => "Ctrl-Break asks for a stop, and there is no other signal",
        "backlog-served" => "a process cannot be suspended from outside as with SIGSTOP",
        "as-pid-1" | "under-shell" => "nothing is between the program and Windows",
        "rolling-restart" => "a listening socket cannot be handed to a program on Windows",
        _ => return None,
    })
}

/// A command line as the user's shell runs it.
pub(super) fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    // As it was written: `cmd` has quotes of its own.
    command.arg("/C").raw_arg(line);
    command
}

pub(super) fn as_stdin(socket: &Held) -> Stdio {
    match socket.0 {}
}

pub(crate) fn held_socket(_: SocketAddr) -> io::Result<Arc<Held>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The socket for `READY=1`: there is none.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) path: PathBuf,
    never: Infallible,
}

impl Notices {
    pub(crate) fn open(_: PathBuf) -> io::Result<Self> {
        let why = "READY=1 comes over a Unix socket, which Windows lacks: have it print a line, or answer";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    #[expect(clippy::unused_async, reason = "as its like elsewhere")]
    pub(super) async fn ready(&self) -> io::Result<()> {
        match self.never {}
    }
}
