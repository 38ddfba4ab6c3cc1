//! Processes on Unix.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::net::UnixDatagram;
use tokio::process::Command;

pub(super) use rustix::process::Pid;
pub(crate) use rustix::process::Signal;

/// A listening socket that somebody else holds.
pub(crate) type Held = OwnedFd;

pub(super) fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// Sends a signal to a process; gone, it gets none.
pub(super) fn send(pid: Pid, signal: Signal) {
    let _ = rustix::process::kill_process(pid, signal);
}

/// Sends a signal to the group that this process leads.
pub(super) fn send_to_group(leader: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(leader, signal);
}

/// Puts the program into a group of its own.
pub(super) fn own_group(command: &mut Command) {
    command.process_group(0);
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The number of the signal that ended it, if one did.
pub(crate) fn ended_by(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Why this check cannot be held on this system, if so.
pub(crate) const fn not_here(_check: &str) -> Option<&'static str> {
    None
}

/// A command line as the user's shell runs it.
pub(super) fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    command
}

pub(super) fn as_stdin(socket: &Held) -> Stdio {
    socket
        .try_clone()
        .map_or_else(|_| Stdio::null(), Stdio::from)
}

/// A socket that listens whether or not the program runs.
pub(crate) fn held_socket(address: SocketAddr) -> io::Result<Arc<Held>> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, 4_096)?;
    Ok(Arc::new(socket))
}

/// The socket for `READY=1`.
#[derive(Debug)]
pub(crate) struct Notices {
    socket: UnixDatagram,
    pub(crate) path: PathBuf,
}

impl Notices {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::bind(&path)?;
        Ok(Self { socket, path })
    }

    /// Cancel-safe.
    pub(super) async fn ready(&self) -> io::Result<()> {
        let mut notice = vec![0; 4_096];
        loop {
            let count = self.socket.recv(&mut notice).await?;
            if notice[..count]
                .split(|byte| *byte == b'\n')
                .any(|line| line == b"READY=1")
            {
                return Ok(());
            }
        }
    }
}
