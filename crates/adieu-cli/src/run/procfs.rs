//! The processes below us: found, signalled and read.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use adieu_os::process::{self, ProcessStat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::signals::Signal;
use super::sys;

pub(super) use adieu_os::process::{all, is_mounted};

/// All processes below this one, the nearest first. A look at one moment: some may be gone, some may be new. None if
/// /proc is [not ours](is_mounted).
pub(super) fn descendants(root: u32) -> Vec<u32> {
    if !is_mounted() {
        return Vec::new();
    }
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        if let Some(below) = children.remove(pid) {
            found.extend(below);
        }
        next += 1;
    }
    found.split_off(1)
}

/// This one and all below it.
pub(super) fn subtree(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    all.extend(descendants(root));
    all
}

/// The members of this process group, also zombies.
pub(super) fn in_group(group: u32) -> impl Iterator<Item = u32> {
    all().filter(move |pid| is_in_group(*pid, group))
}

/// Whether this process is below us, also one that has ended and waits for its parent. It is asked for upwards: in a
/// [list of all](descendants) one is missing whose parent ends while the list is made.
pub(super) fn is_below_us(pid: u32) -> bool {
    /// Each time an ancestor has just ended, the way up is another one.
    const TIMES: usize = 5;
    let us = std::process::id();
    if !is_mounted() {
        // All that there are belong to the first.
        return us == 1;
    }
    for _ in 0..TIMES {
        let mut on_the_way = pid;
        loop {
            match ProcessStat::of(on_the_way).map(|it| it.parent) {
                Some(parent) if parent == us => return true,
                Some(0) => return false,
                Some(parent) => on_the_way = parent,
                None if on_the_way == pid => return false,
                None => break,
            }
        }
    }
    false
}

/// A process, whatever its number is used for later.
pub(super) fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal to a process if it is below us: its number may have become that of another since it was seen.
pub(super) fn signal(pid: u32, signal: Signal) {
    signal_if(pid, signal, || is_below_us(pid));
}

/// Sends a signal to a process if this is so of it.
pub(super) fn signal_if(pid: u32, signal: Signal, is_meant: impl Fn() -> bool) {
    // Opened first: what is seen after that is what it was opened for.
    match open(pid) {
        Ok(process) if is_meant() => sys::signal(process.as_fd(), signal),
        // No file descriptor is left for a pidfd; a process that has to end has to end all the same.
        Err(error) if is_short(&error) && is_meant() => sys::kill(pid, signal),
        _ => {}
    }
}

fn is_short(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Some(libc::EMFILE), Some(libc::ENFILE), Some(libc::ENOMEM)].contains(&code)
}

/// Continues a process that is suspended, as by SIGSTOP. No other process gets the signal.
pub(super) fn wake(pid: u32) {
    if is_mounted() && ProcessStat::of(pid).is_some_and(|it| it.state == 'T') {
        sys::kill(pid, Signal::CONT);
    }
}

/// `None` for one that is gone, and for a zombie: it only waits for its parent.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = ProcessStat::of(pid)?;
    (!stat.has_ended()).then_some(stat.parent)
}

pub(super) fn is_in_group(pid: u32, group: u32) -> bool {
    ProcessStat::of(pid).is_some_and(|it| it.group == group)
}

/// The session that a process is in.
pub(super) fn session_of(pid: u32) -> Option<u32> {
    ProcessStat::of(pid).map(|it| it.session)
}

/// When a process began, in ticks since the machine did: together with its number it is unique.
pub(super) fn birth_of(pid: u32) -> Option<u64> {
    ProcessStat::of(pid).map(|it| it.started)
}

/// With what a process has ended that its parent has not waited for yet, as the parent will be told.
pub(super) fn status_of(pid: u32) -> Option<i32> {
    ProcessStat::of(pid)?.wait_status
}

/// Reads the memory of a process; gives back how much there was to read. Through /proc, which the kernel allows to a
/// process that may trace it: `process_vm_readv` is refused by older seccomp profiles of docker.
pub(super) fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    fs::File::open(format!("/proc/{pid}/mem"))?.read_at(into, address)
}

/// The name of a process, for people.
pub(super) fn name(pid: u32) -> String {
    process::name(pid).unwrap_or_else(|| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_descend_from_our_parent() {
        let us = std::process::id();
        let parent = parent_of(us).unwrap();
        assert!(descendants(parent).contains(&us));
        assert!(!is_below_us(us) && !is_below_us(parent));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // While it runs, and when it has ended.
        assert!(is_below_us(child.id()));
        child.wait().unwrap();
        assert!(!is_below_us(child.id()));
        assert_eq!(subtree(us)[0], us);
        let group = ProcessStat::of(us).unwrap().group;
        assert!(in_group(group).any(|pid| pid == us));
    }
}
