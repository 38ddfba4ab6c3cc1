//! A program under test, as a process: started, signalled, seen to its end.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

/// A process that is killed if it is dropped before its end.
#[must_use = "a process that is dropped is killed"]
pub struct ChildProcess {
    child: Child,
    pid: Pid,
    lines: Lines<BufReader<ChildStdout>>,
    /// All that was written to standard error, in whole lines.
    errors: watch::Receiver<String>,
    /// Up to where it was looked at.
    heard: usize,
    asked: Option<Instant>,
}

/// How a process ended.
#[derive(Debug)]
pub struct ProcessEnd {
    /// Its exit code, or the signal that ended it.
    pub status: ExitStatus,
    /// From the first SIGTERM to its end, if there was one.
    pub took: Option<Duration>,
    /// What it wrote to standard error.
    pub errors: String,
}

impl ChildProcess {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            // Wherever the test runs, the program is not in a cluster with a lame duck.
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            child,
            pid,
            lines: BufReader::new(stdout).lines(),
            errors: listen(stderr),
            heard: 0,
            asked: None,
        })
    }

    /// The rest of the first line that begins with this. Lines before it are skipped. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the program ends before it prints such a line.
    pub async fn line(&mut self, beginning: &str) -> io::Result<String> {
        while let Some(line) = self.lines.next_line().await? {
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// The next line on standard error that has these words, after the one that was found last. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If the program closes its standard error before it writes such a line.
    pub async fn error_line(&mut self, words: &str) -> io::Result<String> {
        let mut found = None;
        let has_words = |text: &String| {
            let mut end = self.heard;
            for line in text[self.heard..].split_inclusive('\n') {
                end += line.len();
                if line.contains(words) {
                    found = Some((end, line.trim_end().to_owned()));
                    return true;
                }
            }
            false
        };
        let ended = |_| io::Error::from(io::ErrorKind::UnexpectedEof);
        self.errors.wait_for(has_words).await.map_err(ended)?;
        let (end, line) = found.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.heard = end;
        Ok(line)
    }

    /// The id of the process.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks it to end, with SIGTERM.
    ///
    /// # Errors
    ///
    /// If it is gone already.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.asked.get_or_insert_with(Instant::now);
        Ok(kill_process(self.pid, Signal::TERM)?)
    }

    /// Holds it where it is, with SIGSTOP.
    ///
    /// # Errors
    ///
    /// If it is gone already.
    pub fn hold(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::STOP)?)
    }

    /// Lets it go on, with SIGCONT.
    ///
    /// # Errors
    ///
    /// If it is gone already.
    pub fn go_on(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Waits for its end. Dropped before, the process is killed.
    ///
    /// # Errors
    ///
    /// If it cannot be waited for.
    pub async fn end(mut self) -> io::Result<ProcessEnd> {
        let status = self.child.wait().await?;
        let took = self.asked.map(|asked| asked.elapsed());
        // Until no process has it open any more.
        while self.errors.changed().await.is_ok() {}
        let errors = self.errors.borrow().clone();
        Ok(ProcessEnd {
            status,
            took,
            errors,
        })
    }
}

/// Reads to the end, and shows what there is so far.
fn listen(from: impl AsyncRead + Unpin + Send + 'static) -> watch::Receiver<String> {
    let (show, seen) = watch::channel(String::new());
    tokio::spawn(async move {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line).await {
            show.send_modify(|text| text.push_str(&String::from_utf8_lossy(&line)));
            line.clear();
        }
    });
    seen
}
