//! Sockets on Windows: TCP only. There are Unix sockets in Windows, but not in tokio there, and no parent
//! process passes listeners on.

use std::convert::Infallible;
use std::io;
use std::os::windows::io::{AsRawSocket, AsSocket, BorrowedSocket};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use socket2::{SockAddr, Socket};
use tokio::io::{Interest, ReadBuf};

use super::inherited::InheritedFd;
use crate::error::Error;

pub(in crate::net) use std::os::windows::io::OwnedSocket as Descriptor;
pub(in crate::net) type Number = i32;

/// Nothing comes with the process here.
#[expect(
    clippy::unnecessary_wraps,
    reason = "elsewhere what came may be unusable"
)]
pub(crate) const fn inherited_fds_from_environment() -> Result<Vec<InheritedFd>, Error> {
    Ok(Vec::new())
}

/// Readiness is reported again only once a read has found nothing.
pub(in crate::net) const LESS_MEANS_EMPTY: bool = false;

/// What accepting fails with while descriptors or memory are lacking: WSAEMFILE and WSAENOBUFS.
pub(in crate::net) const SHORTAGES: &[i32] = &[10_024, 10_055];

/// Asked only where descriptors are counted.
pub(in crate::net) const fn has_queued(_: &Socket) -> bool {
    false
}

/// There is no limit to count against.
pub(in crate::net) const fn descriptor_limit() -> Option<usize> {
    None
}

pub(in crate::net) const fn raise_descriptor_limit() {}

pub(in crate::net) const fn open_descriptors() -> usize {
    0
}

pub(in crate::net) fn number_of(descriptor: &Descriptor) -> Number {
    Number::try_from(descriptor.as_raw_socket()).unwrap_or(Number::MAX)
}

pub(in crate::net) const fn path_of(_: &SockAddr) -> Option<PathBuf> {
    None
}

/// Nothing is to be done for it: the option that allows it elsewhere lets any process take the port over here, while it
/// is in use.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it may fail")]
pub(in crate::net) const fn allow_lingering(_: &Socket) -> io::Result<()> {
    Ok(())
}

/// There is no such step here: the reserve is filled up later.
#[cfg(feature = "admin")]
pub(in crate::net) fn replaced(descriptor: Descriptor, _: &Socket) -> Option<Descriptor> {
    drop(descriptor);
    None
}

pub(in crate::net) const fn unacknowledged(_: &Socket) -> Option<u32> {
    None
}

/// Not asked here: what holds a stop has its bound all the same.
#[cfg(feature = "http")]
pub(in crate::net) const fn peer_hangup(_: &Socket) -> (bool, bool) {
    (false, false)
}

pub(in crate::net) const fn unread(_: &Socket) -> Option<u64> {
    None
}

pub(in crate::net) fn bind_unix(_: &Path) -> io::Result<(Socket, SocketFile, StartLock)> {
    Err(no_unix_sockets())
}

/// There is none.
#[derive(Clone, Debug)]
pub(crate) struct SocketFile(Infallible);

impl SocketFile {
    pub(crate) fn remove(self) -> io::Result<()> {
        match self.0 {}
    }
}

/// There is none.
pub(in crate::net) struct StartLock;

fn no_unix_sockets() -> io::Error {
    let why = "there are no Unix sockets on Windows: listen on 127.0.0.1 instead";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// There is none.
pub(in crate::net) struct UnixListener(Infallible);

/// There is none.
pub(in crate::net) struct UnixStream(Infallible);

impl UnixListener {
    pub(in crate::net) fn from_std(_: Socket) -> io::Result<Self> {
        Err(no_unix_sockets())
    }

    pub(in crate::net) fn poll_accept(
        &self,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<(UnixStream, SockAddr)>> {
        match self.0 {}
    }
}

impl UnixStream {
    pub(in crate::net) fn from_std(_: Socket) -> io::Result<Self> {
        Err(no_unix_sockets())
    }

    pub(in crate::net) fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(in crate::net) fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    pub(in crate::net) fn try_read_buf(&self, _: &mut ReadBuf<'_>) -> io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::net) fn try_io<R>(
        &self,
        _: Interest,
        _: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        match self.0 {}
    }

    pub(in crate::net) fn try_write(&self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::net) fn try_write_vectored(&self, _: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {}
    }
}

#[cfg(feature = "admin")]
impl UnixStream {
    pub(in crate::net) fn into_std(self) -> io::Result<Socket> {
        match self.0 {}
    }
}

impl AsSocket for UnixListener {
    fn as_socket(&self) -> BorrowedSocket<'_> {
        match self.0 {}
    }
}

impl AsSocket for UnixStream {
    fn as_socket(&self) -> BorrowedSocket<'_> {
        match self.0 {}
    }
}
