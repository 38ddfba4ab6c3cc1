//! The service and its successors, which have one standard output and one standard input.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

use super::DEPLOY_TIMEOUT;

pub(super) struct Processes {
    first: Child,
    /// Its end stops the one that is left, also if this program is killed.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    pid: u32,
}

impl Processes {
    pub(super) fn start() -> Result<(Self, SocketAddr), String> {
        let program = std::env::current_exe().map_err(|error| {
            format!("cannot determine the path of the adieu executable: {error}")
        })?;
        // A new process is the child of the old one, and ours once that has ended.
        set_child_subreaper(Pid::from_raw(1)).map_err(|error| error.to_string())?;
        let mut first = Command::new(program)
            .args(["demo", "--serve-counter"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start the service: {error}"))?;
        let (tell, lines) = mpsc::channel();
        if let Some(stdout) = first.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if tell.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let processes = Self {
            pid: first.id(),
            input: first.stdin.take(),
            first,
            lines,
        };
        let address = processes.wait_for(&["listening on "])?;
        let address = address
            .parse()
            .map_err(|_| format!("{address} is not an address"))?;
        Ok((processes, address))
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// What follows one of these words in the next line that begins with it.
    fn wait_for(&self, words: &[&str]) -> Result<String, String> {
        loop {
            let line = self.lines.recv_timeout(DEPLOY_TIMEOUT).map_err(|_| {
                format!(
                    "the service has not said {:?} within {} s",
                    words[0],
                    DEPLOY_TIMEOUT.as_secs()
                )
            })?;
            if let Some(why) = line.strip_prefix("hand-off failed: ") {
                return Err(format!("the hand-off failed: {why}"));
            }
            if let Some(rest) = words.iter().find_map(|word| line.strip_prefix(word)) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// Replaces the service; the number of its new process.
    pub(super) fn deploy(&mut self) -> Result<u32, String> {
        signal(self.pid, Signal::USR2)?;
        let new = self.wait_for(&["handed over to "])?;
        self.pid = new.parse().map_err(|_| format!("{new} is not a process"))?;
        Ok(self.pid)
    }

    /// Stops the last process, and waits for all.
    pub(super) fn stop(mut self) {
        drop(self.input.take());
        let _ = self.first.wait();
        // Those that have become ours; an error says that there is none left.
        while let Ok(Some(_)) = waitpid(None, WaitOptions::empty()) {}
    }
}

fn signal(pid: u32, signal: Signal) -> Result<(), String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("a process without a number")?;
    kill_process(pid, signal).map_err(|error| format!("cannot signal the service: {error}"))
}
