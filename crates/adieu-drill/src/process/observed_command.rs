//! A command line of the user's that is watched line by line while it runs, and that may leave processes behind: it is
//! what changes a deployment, and what it has started when it ends is the deployment.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::system::{self, Pid};

/// So many lines are kept, and of each so many bytes.
const MOST_LINES: usize = 200;
const LONGEST: usize = 400;
/// From SIGTERM to SIGKILL, for a command that is ended.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// What it printed last is in the pipe, and read a moment later.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// A running command, in a process group of its own. Dropped before its end, the group is killed.
#[derive(Debug)]
pub(crate) struct ObservedCommand {
    child: Child,
    group: Option<Pid>,
    pub(crate) started: Instant,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    readers: JoinSet<()>,
}

impl ObservedCommand {
    /// Starts it with the user's shell.
    ///
    /// # Errors
    ///
    /// With a sentence, if there is no shell.
    pub(crate) fn start(line: &str, cwd: Option<&Path>) -> Result<Self, String> {
        let mut command = system::shell(line);
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
        }
        system::own_group(&mut command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let started = Instant::now();
        let lines = Arc::default();
        let mut readers = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            readers.spawn(read(stdout, Arc::clone(&lines)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.spawn(read(stderr, Arc::clone(&lines)));
        }
        let group = child.id().and_then(system::pid);
        Ok(Self {
            child,
            group,
            started,
            lines,
            readers,
        })
    }

    /// Its end, if it comes within this time. After that the whole group is ended: first by SIGTERM, then by SIGKILL.
    pub(crate) async fn ended_within(&mut self, limit: Duration) -> Option<(ExitStatus, Instant)> {
        let ended = timeout(limit, self.child.wait()).await;
        let at = Instant::now();
        if let Ok(Ok(status)) = ended {
            self.group = None;
            // A process that it left behind may hold the pipe open, and then this waits in vain.
            let _ = timeout(OUTPUT_TIMEOUT, async {
                while self.readers.join_next().await.is_some() {}
            })
            .await;
            return Some((status, at));
        }
        if let Some(group) = self.group {
            system::signal_group(group, system::Signal::TERM);
            let _ = timeout(KILL_AFTER, self.gone()).await;
            system::signal_group(group, system::Signal::KILL);
            let _ = self.child.start_kill();
            let _ = timeout(OUTPUT_TIMEOUT, self.gone()).await;
            self.group = None;
        }
        let _ = self.child.wait().await;
        None
    }

    /// Completes when it has ended, and whatever else had its output open.
    async fn gone(&mut self) {
        let _ = self.child.wait().await;
        while self.readers.join_next().await.is_some() {}
    }

    /// What it printed, each line with its time.
    pub(crate) fn lines(&self) -> Vec<(Instant, String)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }

    /// Whether something still holds its output open after its end.
    pub(crate) fn left_its_output_open(&self) -> bool {
        !self.readers.is_empty()
    }
}

impl Drop for ObservedCommand {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            system::signal_group(group, system::Signal::KILL);
        }
    }
}

/// Reads to the end, and keeps the first lines.
async fn read(from: impl AsyncRead + Unpin, lines: Arc<Mutex<Vec<(Instant, String)>>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without end does not fill the memory.
        let read = read_line(&mut from, &mut line).await;
        if !read {
            return;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST_LINES && !text.is_empty() {
            lines.push((Instant::now(), text));
        }
    }
}

/// A line, cut where it is too long. False at the end.
async fn read_line(from: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>) -> bool {
    loop {
        let Ok(bytes) = from.fill_buf().await else {
            return false;
        };
        if bytes.is_empty() {
            return !line.is_empty();
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let here = end.unwrap_or(bytes.len());
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..here.min(room)]);
        let used = end.map_or(here, |end| end + 1);
        from.consume(used);
        if end.is_some() {
            // An empty line does not end the output.
            line.push(b'\n');
            return true;
        }
    }
}
