//! How many connections wait in the accept queue of a listening socket.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::BorrowedFd;

use adieu_os::socket::TcpRow;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::{sockets, sys};

/// The backlog of a TCP or Unix socket. Where the kernel does not count that of a Unix socket, one or more counts as
/// one.
pub(super) fn len(socket: BorrowedFd<'_>) -> u32 {
    if let Ok(count) = sys::queue(socket) {
        return count;
    }
    let counted = sockets::inode(socket).and_then(|inode| unix_backlog(inode).ok().flatten());
    counted.unwrap_or_else(|| u32::from(sys::is_readable(socket)))
}

/// Listening TCP sockets of others that we have no copy of: /proc says how many wait.
#[derive(Default)]
pub(super) struct ProcSockets(Vec<(u32, HashSet<u64>)>);

impl ProcSockets {
    /// These sockets of a process, by inode.
    pub(super) fn add(&mut self, pid: u32, inodes: impl IntoIterator<Item = u64>) {
        self.0.push((pid, inodes.into_iter().collect()));
    }

    pub(super) fn has(&self, inode: u64) -> bool {
        self.0.iter().any(|(_, inodes)| inodes.contains(&inode))
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, inodes)| inodes.len()).sum()
    }

    pub(super) fn waiting(&self) -> u32 {
        let tables = self.0.iter().flat_map(|(pid, inodes)| {
            let queue = |name| backlog_of(&format!("/proc/{pid}/net/{name}"), inodes);
            ["tcp", "tcp6"].map(queue)
        });
        tables.sum()
    }
}

/// The table has those that listen first, and no more of it is read: the rest is as long as there are connections.
fn backlog_of(table: &str, inodes: &HashSet<u64>) -> u32 {
    const PAGE: usize = 4_096;
    let Ok(file) = File::open(table) else {
        return 0;
    };
    let lines = BufReader::with_capacity(PAGE, file).lines().skip(1);
    lines
        .map_while(|line| parse_listening(&line.ok()?))
        .filter(|(inode, _)| inodes.contains(inode))
        .map(|(_, queue)| queue)
        .sum()
}

/// The inodes of the sockets of a process's network that listen on this port, of this machine or of all its addresses.
#[cfg(feature = "front")]
pub(super) fn listening_on(pid: u32, port: u16) -> Vec<u64> {
    let all = ["tcp", "tcp6"].into_iter().flat_map(|name| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        let listening = table.lines().skip(1).map_while(|line| {
            let row = TcpRow::parse(line).filter(TcpRow::is_listening)?;
            Some((row.local_port(), row.inode()?))
        });
        let theirs = listening.filter(|(local, _)| *local == Some(port));
        theirs.map(|(_, inode)| inode).collect::<Vec<_>>()
    });
    all.collect()
}

/// Inode and queue of a socket that listens; `None` for any other.
fn parse_listening(line: &str) -> Option<(u64, u32)> {
    let row = TcpRow::parse(line).filter(TcpRow::is_listening)?;
    Some((row.inode()?, row.receive_queue()?))
}

/// Asks as `ss -x` does.
fn unix_backlog(inode: u64) -> io::Result<Option<u32>> {
    let inode = u32::try_from(inode).map_err(io::Error::other)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let diag = Some(netlink::SOCK_DIAG);
    let line = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, diag)?;
    send(&line, &request(inode), SendFlags::empty())?;
    let mut answer = [0; 512];
    // The kernel has answered when the question is sent.
    let (count, _) = recv(&line, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(parse_reply(&answer[..count]))
}

/// The kinds of message that are asked for and answered with, as in `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
const HEAD: usize = 16;

/// A `struct nlmsghdr` and a `struct unix_diag_req`.
fn request(inode: u32) -> Vec<u8> {
    const LENGTH: u32 = 40;
    const REQUEST: u16 = 1;
    const ANY_STATE: u32 = u32::MAX;
    const SHOW_QUEUE: u32 = 0x10;
    const NO_COOKIE: u32 = u32::MAX;
    let mut bytes = LENGTH.to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Sequence number and port id.
    bytes.extend([0; 8]);
    let family = u8::try_from(libc::AF_UNIX).unwrap_or(0);
    bytes.extend([family, 0, 0, 0]);
    for word in [ANY_STATE, inode, SHOW_QUEUE, NO_COOKIE, NO_COOKIE] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// A `struct nlmsghdr`, a `struct unix_diag_msg`, and attributes; `None` for an error, or if the length is not there.
fn parse_reply(answer: &[u8]) -> Option<u32> {
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
    fn waiting_connections_are_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = tcp.local_addr().unwrap();
        let mut kept = Vec::new();
        for count in 0..3 {
            assert_eq!(len(unix.as_fd()), count);
            assert_eq!(len(tcp.as_fd()), count);
            let mut listed = ProcSockets::default();
            listed.add(std::process::id(), sockets::inode(tcp.as_fd()));
            assert_eq!(listed.waiting(), count);
            kept.push((
                UnixStream::connect(&path).unwrap(),
                std::net::TcpStream::connect(at).unwrap(),
            ));
        }
        unix.accept().unwrap();
        assert_eq!(len(unix.as_fd()), 2);
    }

    #[test]
    fn an_uncounted_backlog_is_seen_by_poll() {
        assert_eq!(parse_reply(&[]), None);
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        let unix = UnixListener::bind(&path).unwrap();
        assert!(!sys::is_readable(unix.as_fd()));
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(sys::is_readable(unix.as_fd()));
        assert_eq!(unix_backlog(u64::from(u32::MAX)).ok().flatten(), None);
    }
}
