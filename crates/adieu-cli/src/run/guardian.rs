//! Somebody who outlives us. If `adieu run` is killed, the kernel kills the command with it, but not what the command
//! has started: its children, and whatever they turned into daemons.
//!
//! The guardian is a process beside us that sleeps at the other end of a socket. When that closes without a word, it
//! kills the groups it was told of, and every process that has our mark in its environment. It holds nothing else
//! open, and no signal reaches it but SIGKILL.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::signals::Signal;
use super::{descendants, sys};

/// The variable with our mark. A process passes it on to those it starts, however far they move away.
pub(super) const MARK: &str = "ADIEU_RUN";
/// Its name in a list of processes; a kernel has room for 15 characters.
const NAME: &str = "adieu-guardian";
/// Said in the place of a group: all have ended, and so may the guardian.
const DISMISSED: i32 = 0;
/// What a guardian that is not needed any more has to go.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks whether somebody is left, and for how long they have to be gone each time.
const LOOKS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// Dropped, it does its work; to send it away is to [dismiss](Self::dismiss) it.
pub(super) struct Guardian {
    pid: u32,
    line: UnixStream,
    mark: OsString,
}

impl Guardian {
    /// Starts it, and may be called only before there is a second thread. `None` for the first process of a container,
    /// with which the kernel ends all others.
    pub(super) fn post() -> io::Result<Option<Self>> {
        if process::id() == 1 {
            return Ok(None);
        }
        let (line, other_end) = UnixStream::pair()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mark = format!("{}-{}", process::id(), since.unwrap_or_default().as_nanos());
        let pid = sys::detach(|| {
            if sys::withdraw(&other_end, NAME).is_ok() {
                watch(other_end, &format!("{MARK}={mark}"));
            }
        })?;
        // Nobody here waits for it.
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

    /// This process group is under its eyes from here on.
    pub(super) fn guard(&self, group: u32) {
        self.say(group.cast_signed());
    }

    /// This group has no member any more, and its number may soon be somebody else's.
    pub(super) fn forget(&self, group: u32) {
        self.say(-group.cast_signed());
    }

    /// One that is gone itself is no problem: it was needed for the worst case only.
    fn say(&self, word: i32) {
        let _ = (&self.line).write_all(&word.to_ne_bytes());
    }

    /// Everybody has ended. Completes when it is gone, too.
    pub(super) fn dismiss(mut self) {
        self.say(DISMISSED);
        let patient = self.line.set_nonblocking(false);
        if patient.is_ok() && self.line.set_read_timeout(Some(PATIENCE)).is_ok() {
            let gone = self.line.read(&mut [0]);
            if gone.is_ok() {
                sys::see_off(self.pid);
            }
        }
    }
}

/// The guardian's life.
fn watch(mut line: UnixStream, mark: &str) {
    let mut groups = BTreeSet::new();
    let mut word = [0; size_of::<i32>()];
    while line.read_exact(&mut word).is_ok() {
        match i32::from_ne_bytes(word) {
            DISMISSED => return,
            group if group > 0 => drop(groups.insert(group.unsigned_abs())),
            group => drop(groups.remove(&group.unsigned_abs())),
        }
    }
    for group in groups {
        sys::kill_group(group, Signal::KILL);
    }
    // Who was just being born is seen at the next look.
    for _ in 0..LOOKS {
        let left: Vec<u32> = descendants::all()
            .filter(|pid| is_ours(*pid, mark))
            .collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            sys::kill(pid, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// A guardian of others, further down, has its own work to do. A zombie has no environment.
fn is_ours(pid: u32, mark: &str) -> bool {
    let is_marked = |environment: Vec<u8>| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|it| it == mark.as_bytes())
    };
    pid != process::id()
        && fs::read(format!("/proc/{pid}/environ")).is_ok_and(is_marked)
        && descendants::name(pid) != NAME
}
