//! A process that outlives us. If `adieu run` is killed, the kernel kills the command with it, but not what the command
//! has started: its children, and daemons.
//!
//! The guard is a process beside us that sleeps at the other end of a socket. When that closes without a word, it
//! kills the groups that were registered with it, and every process that has our mark in its environment. It holds nothing else
//! open, and no signal reaches it but SIGKILL.
//!
//! The number of a group that is empty may be used again. While a group has a member, no process can get its number:
//! one that has it and began at another time than the leader leads another group.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adieu_os::process::has_in_environment;

use super::signals::Signal;
use super::{procfs, sys};

/// The variable with our mark. A process passes it on to those it starts, however far they move away.
pub(super) const MARK: &str = "ADIEU_RUN";
/// Its name in a list of processes; a kernel has room for 15 characters.
const NAME: &str = "adieu-guardian";
/// In the place of a group: all have ended, and so may the guard.
const DISMISSED: i32 = 0;
/// Of a leader whose birth /proc does not tell.
const UNKNOWN: u64 = 0;
/// A group, below zero if it is to be forgotten; and when its leader began.
const WORD: usize = size_of::<i32>() + size_of::<u64>();
/// What a guard that is not needed any more has to go.
const DISMISS_TIMEOUT: Duration = Duration::from_millis(500);
/// How often it looks for processes that are left, and how long it waits for their end each time.
const LOOKS: u32 = 250;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Dropped, it does its work; to send it away is to [dismiss](Self::dismiss) it.
pub(super) struct OrphanGuard {
    pid: u32,
    line: UnixStream,
    mark: OsString,
}

impl OrphanGuard {
    /// Starts it, and may be called only before there is a second thread. `None` for the PID 1 of a container,
    /// with which the kernel ends all others.
    pub(super) fn start() -> io::Result<Option<Self>> {
        if process::id() == 1 {
            return Ok(None);
        }
        let (line, other_end) = UnixStream::pair()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mark = format!("{}-{}", process::id(), since.unwrap_or_default().as_nanos());
        let session = procfs::session_of(process::id());
        let pid = sys::detach(|| {
            if sys::withdraw(&other_end, NAME).is_ok() {
                guard_until_dismissed(other_end, &format!("{MARK}={mark}"), session);
            }
        })?;
        // No thread of ours waits for it.
        line.set_nonblocking(true)?;
        let mark = mark.into();
        Ok(Some(Self { pid, line, mark }))
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) const fn mark(&self) -> &OsString {
        &self.mark
    }

    /// The process group of this child is under its eyes from here on.
    pub(super) fn watch(&self, group: u32) {
        let birth = procfs::birth_of(group).filter(|_| procfs::is_mounted());
        let birth = birth.unwrap_or(UNKNOWN);
        self.say(group.cast_signed(), birth);
    }

    /// This group has no member any more, and the kernel may give its number to another group.
    pub(super) fn forget(&self, group: u32) {
        self.say(-group.cast_signed(), 0);
    }

    /// A guard that is gone itself is not an error: it was needed for the worst case only.
    fn say(&self, group: i32, birth: u64) {
        let mut word = [0; WORD];
        let (first, second) = word.split_at_mut(size_of::<i32>());
        first.copy_from_slice(&group.to_ne_bytes());
        second.copy_from_slice(&birth.to_ne_bytes());
        let _ = (&self.line).write_all(&word);
    }

    /// All processes have ended. Completes when the guard has ended, too.
    pub(super) fn dismiss(mut self) {
        self.say(DISMISSED, 0);
        let patient = self.line.set_nonblocking(false);
        if patient.is_ok() && self.line.set_read_timeout(Some(DISMISS_TIMEOUT)).is_ok() {
            let gone = self.line.read(&mut [0]);
            if gone.is_ok() {
                sys::see_off(self.pid);
            }
        }
    }
}

/// The guard's life.
fn guard_until_dismissed(mut line: UnixStream, mark: &str, session: Option<u32>) {
    let mut groups = BTreeMap::new();
    let (mut group, mut birth) = ([0; size_of::<i32>()], [0; size_of::<u64>()]);
    while line.read_exact(&mut group).is_ok() && line.read_exact(&mut birth).is_ok() {
        let birth = u64::from_ne_bytes(birth);
        match i32::from_ne_bytes(group) {
            DISMISSED => return,
            group if group > 0 => drop(groups.insert(group.unsigned_abs(), birth)),
            group => drop(groups.remove(&group.unsigned_abs())),
        }
    }
    for (group, birth) in groups {
        kill_group(group, birth, session);
    }
    // A process that was just being forked is seen at the next look.
    for _ in 0..LOOKS {
        let left: Vec<u32> = procfs::all().filter(|pid| is_ours(*pid, mark)).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            procfs::signal_if(pid, Signal::KILL, || is_ours(pid, mark));
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Kills a group that was led by a process of this birth, and none that has got its number since.
fn kill_group(group: u32, birth: u64, session: Option<u32>) {
    match procfs::birth_of(group) {
        _ if birth == UNKNOWN => sys::kill_group(group, Signal::KILL),
        Some(now) if now == birth => sys::kill_group(group, Signal::KILL),
        Some(_) => {}
        // The leader is gone. What is left of its group is in the session that we were in.
        None => {
            let is_left =
                |pid: u32| procfs::is_in_group(pid, group) && procfs::session_of(pid) == session;
            for pid in procfs::in_group(group) {
                procfs::signal_if(pid, Signal::KILL, || is_left(pid));
            }
        }
    }
}

/// A guard of others, further down, has its own work to do. A zombie has no environment.
fn is_ours(pid: u32, mark: &str) -> bool {
    pid != process::id()
        && has_in_environment(pid, |pair| pair == mark.as_bytes())
        && procfs::name(pid) != NAME
}
