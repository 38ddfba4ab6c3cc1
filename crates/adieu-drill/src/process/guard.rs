//! A process beside the drill that outlives it. If the drill is killed by SIGKILL it can end nothing any more; then the
//! guard ends what the drill has started.
//!
//! It reads from a pipe that only the drill can write to. When that ends, it kills every process with the mark of the
//! drill in its environment, and their descendants. A daemon that has left its parent and its environment behind is not
//! found: only the drill itself, which adopts orphans, would know it.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::launch;
use super::process_tree::{self, SpawnedPid};

/// How often it looks whether a process is left, and how long the kernel has to end one.
const LOOKS: u32 = 250;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The guard of this process. Dropped, it is sent away.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    line: Option<ChildStdin>,
    _own: Option<SpawnedPid>,
}

impl Guard {
    /// Starts it: a program that calls [`watch`] with its last argument, which is added here.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .arg(launch::drill_mark())
            // With our environment it would look like one of those it is to end.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to the drill is not meant for it.
            .process_group(0)
            .spawn()?;
        let line = child.stdin.take();
        Ok(Self {
            _own: SpawnedPid::command(child.id()),
            child,
            line,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.line.take());
        // It has nothing left to end, and is gone after one look.
        let _ = self.child.wait();
    }
}

/// What the guard does: returns when the drill with this mark is gone, and all that it started.
pub fn watch(mark: &str) {
    let mut nothing = [0; 64];
    while matches!(io::stdin().read(&mut nothing), Ok(1..)) {}
    for _ in 0..LOOKS {
        // What was being started is seen at the next look.
        if !process_tree::end_marked(mark) {
            return;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
