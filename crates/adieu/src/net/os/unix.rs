//! Sockets on Unix.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use socket2::{SockAddr, Socket};

pub(in crate::net) use std::os::fd::{OwnedFd as Descriptor, RawFd as Number};
pub(in crate::net) use tokio::net::{UnixListener, UnixStream};

pub(crate) use super::activation::from_environment as inherited_fds_from_environment;
pub(in crate::net) use super::socket_file::{SocketFile, StartLock, bind as bind_unix};

/// Whether a read of less than was asked for says that there is no more: so it is with epoll and kqueue,
/// which report readiness once.
pub(in crate::net) const LESS_MEANS_EMPTY: bool = cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    target_os = "ios",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly",
    target_os = "illumos",
));

/// What accepting fails with while descriptors or memory are lacking.
pub(in crate::net) const SHORTAGES: &[i32] =
    &[libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];

/// Whether a connection is in the queue of a listener.
pub(in crate::net) fn has_queued(listener: &Socket) -> bool {
    crate::util::sys::events(listener.as_fd(), libc::POLLIN) != 0
}

/// Descriptors that a program can open by default where the kernel sets no lower limit: no soft limit is raised beyond
/// it. Children inherit the limit, and some programs close every number below it one by one.
const RAISED_TO: u64 = 1 << 20;

/// How many descriptors this process may have open; `None` if any number.
pub(in crate::net) fn descriptor_limit() -> Option<usize> {
    let [soft, _] = crate::util::sys::descriptor_limits(None)?;
    let limit = usize::try_from(soft).ok();
    limit.filter(|_| soft != libc::RLIM_INFINITY)
}

/// Raises the soft limit of descriptors to the hard one, as far as the system lets it.
pub(in crate::net) fn raise_descriptor_limit() {
    if let Some([soft, hard]) = crate::util::sys::descriptor_limits(None) {
        let raised = hard.min(RAISED_TO);
        if soft < raised {
            crate::util::sys::descriptor_limits(Some(raised));
        }
    }
}

/// How many descriptors are open; 0 where that cannot be known.
pub(in crate::net) fn open_descriptors() -> usize {
    // The look itself has one open.
    std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count().saturating_sub(1))
}

pub(in crate::net) fn number_of(descriptor: &Descriptor) -> Number {
    descriptor.as_raw_fd()
}

/// The file of a Unix socket.
pub(in crate::net) fn path_of(address: &SockAddr) -> Option<PathBuf> {
    address.as_pathname().map(Path::to_owned)
}

/// The port of a service that has just ended is free, even if connections of it linger in the kernel.
pub(in crate::net) fn allow_lingering(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)
}

/// Closes what a descriptor stands for, and keeps its number: from here on it stands for a copy of `pattern`.
#[cfg(all(target_os = "linux", feature = "admin"))]
pub(in crate::net) fn replaced(descriptor: Descriptor, pattern: &Socket) -> Option<Descriptor> {
    crate::util::sys::replace(&descriptor, pattern.as_fd()).ok()?;
    Some(descriptor)
}

/// There is no such step here that also keeps the descriptor from children: the reserve is filled up later.
#[cfg(all(not(target_os = "linux"), feature = "admin"))]
pub(in crate::net) fn replaced(descriptor: Descriptor, _: &Socket) -> Option<Descriptor> {
    drop(descriptor);
    None
}

/// How much of what was written the other end has not taken yet; `None` where that cannot be known.
pub(in crate::net) fn unacknowledged(socket: &Socket) -> Option<u32> {
    crate::util::sys::unacknowledged(socket.as_fd())
}

/// Whether the other end has closed its side, and whether it is gone.
#[cfg(feature = "http")]
pub(in crate::net) fn peer_hangup(socket: &Socket) -> (bool, bool) {
    #[cfg(target_os = "linux")]
    const CLOSED: libc::c_short = libc::POLLRDHUP;
    #[cfg(not(target_os = "linux"))]
    const CLOSED: libc::c_short = libc::POLLHUP;
    let seen = crate::util::sys::events(socket.as_fd(), CLOSED);
    (
        seen & CLOSED != 0,
        seen & (libc::POLLHUP | libc::POLLERR) != 0,
    )
}

/// How much there is to be read; `None` where that cannot be known.
pub(in crate::net) fn unread(socket: &Socket) -> Option<u64> {
    crate::util::sys::unread(socket.as_fd())
}
