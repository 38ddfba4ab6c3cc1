//! A process of our own, to send signals to: each program is its own child, told apart by its first word.

use std::io::{self, BufRead, BufReader};
use std::process::{self, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

/// Time that parent and child read alike.
#[derive(Clone, Copy, Debug)]
pub struct Clock(());

impl Clock {
    /// Nanoseconds of the system's monotonic clock, which has one origin for all processes.
    #[must_use]
    pub fn now() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
        seconds * 1_000_000_000 + nanos
    }
}

/// This program once more, as something else.
pub struct Child {
    process: process::Child,
    lines: BufReader<ChildStdout>,
}

impl Child {
    /// Starts it and waits for its first line, which says that it is ready.
    ///
    /// # Errors
    /// It could not be started, or ended without a word.
    pub fn start(role: &str) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let Some(stdout) = process.stdout.take() else {
            return Err(io::Error::other("the child has no output"));
        };
        let mut child = Self {
            process,
            lines: BufReader::new(stdout),
        };
        child.line()?;
        Ok(child)
    }

    /// The next line it says.
    ///
    /// # Errors
    /// It ended without one.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(io::Error::other("the child ended early")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGTERM; says when.
    ///
    /// # Errors
    /// There is no such process.
    pub fn terminate(&self) -> io::Result<u64> {
        let pid = Pid::from_child(&self.process);
        let sent = Clock::now();
        kill_process(pid, Signal::TERM)?;
        Ok(sent)
    }

    /// Waits for its end; says when that was.
    ///
    /// # Errors
    /// It did not end with success.
    pub fn wait(mut self) -> io::Result<u64> {
        let status = self.process.wait()?;
        let ended = Clock::now();
        if status.success() {
            Ok(ended)
        } else {
            Err(io::Error::other(format!("the child: {status}")))
        }
    }
}

/// Lets a child come to rest after its first line, so that a signal finds it as it would be found in life.
pub const REST: Duration = Duration::from_millis(5);

/// Nanoseconds from SIGTERM to the end of a child.
///
/// # Errors
/// The child did not start, or did not end with success.
pub fn signal_then_exit(role: &str) -> io::Result<f64> {
    let child = Child::start(role)?;
    thread::sleep(REST);
    let sent = child.terminate()?;
    Ok(elapsed(sent, child.wait()?))
}

/// From one reading of the clock to another, for arithmetic.
#[must_use]
pub fn elapsed(from: u64, to: u64) -> f64 {
    Duration::from_nanos(to.saturating_sub(from)).as_secs_f64() * 1e9
}
