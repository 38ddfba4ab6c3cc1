//! Sockets on Unix.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

pub(in crate::net) use std::os::fd::{OwnedFd as Descriptor, RawFd as Number};
pub(in crate::net) use tokio::net::{UnixListener, UnixStream};

pub(crate) use super::activation::from_environment as inherited;

/// Whether a read of less than was asked for says that there is no more: so it is where readiness is told of once,
/// by epoll and kqueue.
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

/// How much of what was written the other end has not taken yet; `None` where that cannot be known.
pub(in crate::net) fn unacknowledged(socket: &Socket) -> Option<u32> {
    crate::sys::unacknowledged(socket.as_fd())
}

/// Whether the other end has closed its side, and whether it is gone.
#[cfg(feature = "http")]
pub(in crate::net) fn departure(socket: &Socket) -> (bool, bool) {
    crate::sys::departure(socket.as_fd())
}

/// How much there is to be read; `None` where that cannot be known.
pub(in crate::net) fn unread(socket: &Socket) -> Option<u64> {
    crate::sys::unread(socket.as_fd())
}

/// A socket file that nobody answers on is left over from a service that was killed, and is replaced. Any other file
/// is somebody's.
pub(in crate::net) fn bind_unix(path: &Path) -> io::Result<Socket> {
    if let Ok(there) = std::fs::metadata(path) {
        if !there.file_type().is_socket() {
            let why = "a file is there that is no socket, and is left alone; choose another path";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?
            }
            _ => return Err(io::Error::from(io::ErrorKind::AddrInUse)),
        }
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}
