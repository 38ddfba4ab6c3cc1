//! A worker that runs; order comes from its own lines, and no wait is unbounded.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far more than any test needs: only a broken promise gets here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Killed if its test fails.
pub(crate) struct Worker {
    child: Child,
    lines: Receiver<String>,
    log: BufReader<ChildStderr>,
}

/// A worker that is gone.
pub(crate) struct Gone {
    pub(crate) status: ExitStatus,
    /// What it had said that the test had not read yet.
    pub(crate) lines: Vec<String>,
    pub(crate) log: String,
}

impl Worker {
    pub(crate) fn start(state: &Path, words: &[&str]) -> Self {
        Self::logging("warn", state, words)
    }

    /// One that logs that much. A log that is read only at the end has to fit into a pipe.
    pub(crate) fn logging(level: &str, state: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_example-worker"))
            .arg("--state")
            .arg(state)
            .args(words)
            .env_remove("ADIEU_GRACE")
            .env("RUST_LOG", level)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-worker starts");
        let lines = read(child.stdout.take().expect("its output"));
        let log = BufReader::new(child.stderr.take().expect("its log"));
        Self { child, lines, log }
    }

    /// Waits until it is in the middle of a batch, if it logs `debug`.
    #[track_caller]
    pub(crate) fn begun(&mut self) {
        let mut line = String::new();
        while !line.contains("batch begun") {
            line.clear();
            let read = self.log.read_line(&mut line).expect("its log");
            assert!(read > 0, "it ended without a batch");
        }
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// The number in the next line, which must begin with this word.
    #[track_caller]
    pub(crate) fn number(&self, word: &str) -> u64 {
        let line = self.line();
        number(&line, word).unwrap_or_else(|| panic!("`{word} N`, not `{line}`"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is not reaped yet");
    }

    #[track_caller]
    pub(crate) fn gone(mut self) -> Gone {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it never ended"),
            }
        }
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("its log");
        let status = self.child.wait().expect("its end");
        Gone { status, lines, log }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: ChildStdout) -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    lines
}

pub(crate) fn number(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.trim().parse().ok()
}

/// What a stranger finds in the documented place: `last_id` and `processed_count`.
#[track_caller]
pub(crate) fn kept(state: &Path) -> (u64, u64) {
    let text = std::fs::read(state.join("importer.json")).expect("the state");
    let found: Value = serde_json::from_slice(&text).expect("JSON");
    let field = |name: &str| found["value"][name].as_u64().expect("a number");
    (field("last_id"), field("processed_count"))
}
