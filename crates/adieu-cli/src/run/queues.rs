//! How many wait in the queue of a listening socket.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::{sockets, sys};

/// Of a TCP socket, or of a Unix socket. Where the kernel does not count the latter's, that somebody waits is one.
pub(super) fn waiting(socket: BorrowedFd<'_>) -> u32 {
    if let Ok(count) = sys::queue(socket) {
        return count;
    }
    let counted = sockets::inode(socket).and_then(|inode| unix_queue(inode).ok().flatten());
    counted.unwrap_or_else(|| u32::from(sys::is_readable(socket)))
}

/// Asks as `ss -x` does.
fn unix_queue(inode: u64) -> io::Result<Option<u32>> {
    let inode = u32::try_from(inode).map_err(io::Error::other)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let diag = Some(netlink::SOCK_DIAG);
    let line = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, diag)?;
    send(&line, &question(inode), SendFlags::empty())?;
    let mut answer = [0; 512];
    // The kernel has answered when the question is sent.
    let (count, _) = recv(&line, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(read_queue(&answer[..count]))
}

/// The kinds of message that are asked for and answered with, as in `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
const HEAD: usize = 16;

/// A `struct nlmsghdr` and a `struct unix_diag_req`.
fn question(inode: u32) -> Vec<u8> {
    const LENGTH: u32 = 40;
    const REQUEST: u16 = 1;
    const ANY_STATE: u32 = u32::MAX;
    const SHOW_QUEUE: u32 = 0x10;
    const NO_COOKIE: u32 = u32::MAX;
    let mut bytes = LENGTH.to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // The number of the question and of who asks.
    bytes.extend([0; 8]);
    let family = u8::try_from(libc::AF_UNIX).unwrap_or(0);
    bytes.extend([family, 0, 0, 0]);
    for word in [ANY_STATE, inode, SHOW_QUEUE, NO_COOKIE, NO_COOKIE] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// A `struct nlmsghdr`, a `struct unix_diag_msg`, and attributes; `None` for an error, or if the length is not there.
fn read_queue(answer: &[u8]) -> Option<u32> {
    const BODY: usize = 16;
    const QUEUE: u16 = 4;
    let short = |bytes: &[u8], at: usize| -> Option<u16> {
        Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
    };
    if short(answer, 4)? != BY_FAMILY {
        return None;
    }
    let mut rest = answer.get(HEAD + BODY..)?;
    loop {
        let length = usize::from(short(rest, 0)?);
        if short(rest, 2)? == QUEUE {
            return Some(u32::from_ne_bytes(rest.get(4..8)?.try_into().ok()?));
        }
        // One of no length would never end.
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn those_who_wait_are_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = tcp.local_addr().unwrap();
        let mut kept = Vec::new();
        for count in 0..3 {
            assert_eq!(waiting(unix.as_fd()), count);
            assert_eq!(waiting(tcp.as_fd()), count);
            kept.push((
                UnixStream::connect(&path).unwrap(),
                std::net::TcpStream::connect(at).unwrap(),
            ));
        }
        unix.accept().unwrap();
        assert_eq!(waiting(unix.as_fd()), 2);
    }

    #[test]
    fn where_nobody_counts_it_is_seen_that_somebody_waits() {
        assert_eq!(read_queue(&[]), None);
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        assert!(!sys::is_readable(unix.as_fd()));
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(sys::is_readable(unix.as_fd()));
        assert_eq!(unix_queue(u64::from(u32::MAX)).ok().flatten(), None);
    }
}
