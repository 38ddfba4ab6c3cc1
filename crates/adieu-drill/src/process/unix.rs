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

/// A listening socket that the drill holds.
pub(crate) type Held = OwnedFd;

pub(super) fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// One process, by a descriptor that never means another one, though numbers are given again.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) pid: Pid,
    /// None where the kernel has no such descriptors.
    #[cfg(target_os = "linux")]
    descriptor: Option<OwnedFd>,
}

impl Handle {
    /// The process that has this number now: a child that has not been waited for, or one whose birth is looked at
    /// afterwards.
    pub(super) fn open(pid: Pid) -> Self {
        #[cfg(target_os = "linux")]
        use rustix::process::{PidfdFlags, pidfd_open};
        Self {
            pid,
            #[cfg(target_os = "linux")]
            descriptor: pidfd_open(pid, PidfdFlags::empty()).ok(),
        }
    }

    /// Sends it a signal; gone, it gets none.
    pub(super) fn send(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        if let Some(descriptor) = &self.descriptor {
            let _ = rustix::process::pidfd_send_signal(descriptor, signal);
            return;
        }
        let _ = rustix::process::kill_process(self.pid, signal);
    }
}

/// Puts the program into a group of its own.
pub(super) fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Sends a signal to every process of the group that this leader began; a group that is gone gets none.
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(leader, signal);
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
    // Connections inherit it, also for a program that does not know that they are TCP.
    sockopt::set_tcp_nodelay(&socket, true)?;
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
