//! Whether a command waits for connections on a socket that it was handed, seen from outside: no protocol is
//! needed, and no connection is made.
//!
//! A process waits for connections when the socket is in one of its epoll sets, or when one of its threads sleeps in
//! `accept`, `poll` or `select` on it.

use std::collections::HashSet;
use std::fs;

use adieu_os::socket::inode;

use super::procfs;

/// No list of descriptors is longer that we care to read.
const MOST: usize = 4_096;

/// On which of these sockets this process, or one below it, waits for connections.
pub(super) fn waits_for_connections(root: u32, inodes: &[u64]) -> Vec<bool> {
    let all = procfs::subtree(root);
    inodes
        .iter()
        .map(|inode| all.iter().any(|pid| waits(*pid, *inode)))
        .collect()
}

fn waits(pid: u32, socket: u64) -> bool {
    let mut numbers = HashSet::new();
    let mut epolls = Vec::new();
    for entry in entries(&format!("/proc/{pid}/fd")) {
        let link = fs::read_link(format!("/proc/{pid}/fd/{entry}")).unwrap_or_default();
        let link = link.to_string_lossy();
        if link == "anon_inode:[eventpoll]" {
            epolls.push(entry);
        } else if inode(&link) == Some(socket) {
            numbers.insert(u64::from(entry));
        }
    }
    epolls.iter().any(|epoll| is_in_epoll(pid, *epoll, socket))
        || (!numbers.is_empty()
            && entries(&format!("/proc/{pid}/task")).any(|thread| sleeps_on(pid, thread, &numbers)))
}

fn entries(folder: &str) -> impl Iterator<Item = u32> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Lines as in `tfd:        3 events:       19 data: 3  pos:0 ino:1f2a sdev:8`.
fn is_in_epoll(pid: u32, epoll: u32, socket: u64) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).unwrap_or_default();
    info.lines()
        .filter(|line| line.starts_with("tfd:"))
        .filter_map(|line| line.split_once("ino:")?.1.split(' ').next())
        .filter_map(|inode| u64::from_str_radix(inode, 16).ok())
        .any(|inode| inode == socket)
}

/// Looks at the system call that a thread sleeps in, and at its arguments.
fn sleeps_on(pid: u32, thread: u32, numbers: &HashSet<u64>) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
    let mut words = text.split(' ');
    let Some(call) = words.next().and_then(|it| it.parse().ok()) else {
        return false;
    };
    let arguments: Vec<u64> = words
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    let [first, second, ..] = arguments[..] else {
        return false;
    };
    match kind_of(call) {
        Some(Call::Accept) => numbers.contains(&first),
        Some(Call::Poll) => is_polled(pid, first, second, numbers),
        Some(Call::Select) => is_selected(pid, first, second, numbers),
        None => false,
    }
}

enum Call {
    Accept,
    Poll,
    Select,
}

fn kind_of(call: libc::c_long) -> Option<Call> {
    match call {
        libc::SYS_accept | libc::SYS_accept4 => Some(Call::Accept),
        libc::SYS_ppoll => Some(Call::Poll),
        libc::SYS_pselect6 => Some(Call::Select),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Some(Call::Poll),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => Some(Call::Select),
        _ => None,
    }
}

/// An array of `struct pollfd`: the descriptor, then what is waited for and what came, in eight bytes.
fn is_polled(pid: u32, address: u64, count: u64, numbers: &HashSet<u64>) -> bool {
    let count = usize::try_from(count).unwrap_or(MOST).min(MOST);
    let mut bytes = vec![0; count * 8];
    let read = procfs::read_memory(pid, address, &mut bytes).unwrap_or(0);
    bytes[..read].chunks_exact(8).any(|one| {
        let number = i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
        u64::try_from(number).is_ok_and(|number| numbers.contains(&number))
    })
}

/// A set of bits, one for each descriptor below `count`.
fn is_selected(pid: u32, count: u64, address: u64, numbers: &HashSet<u64>) -> bool {
    let count = usize::try_from(count).unwrap_or(MOST).min(MOST);
    // In words of eight bytes; on a machine whose first byte is the lowest, bit n is in byte n / 8.
    let mut bytes = vec![0; count.div_ceil(64) * 8];
    let read = procfs::read_memory(pid, address, &mut bytes).unwrap_or(0);
    numbers.iter().any(|number| {
        let number = usize::try_from(*number).unwrap_or(usize::MAX);
        let byte = bytes[..read].get(number / 8).copied().unwrap_or(0);
        number < count && byte >> (number % 8) & 1 == 1
    })
}
