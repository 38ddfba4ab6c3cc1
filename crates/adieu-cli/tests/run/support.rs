//! The command as a process, and what is known of processes from outside.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use adieu_testkit::{ChildProcess, ProcessEnd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::time::timeout;

pub(crate) const ADIEU: &str = env!("CARGO_BIN_EXE_adieu");

/// Only a broken promise takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it to its end: exit code, standard output, standard error.
pub(crate) fn run(options: &[&str], command: &[&str]) -> (i32, String, String) {
    run_in(&[], options, command)
}

/// Starts it with these variables in its environment.
pub(crate) fn run_in(
    variables: &[(&str, &str)],
    options: &[&str],
    command: &[&str],
) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(ADIEU)
        .arg("run")
        .args(options)
        .arg("--")
        .args(command)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (
        status.code().unwrap_or_else(|| panic!("{status}")),
        text(stdout),
        text(stderr),
    )
}

/// A running `adieu run`.
pub(crate) struct Wrapper {
    pub(crate) subject: ChildProcess,
}

impl Wrapper {
    pub(crate) fn start<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Self {
        let mut words: Vec<&OsStr> = vec!["run".as_ref()];
        words.extend(options.iter().map(OsStr::new));
        words.push("--".as_ref());
        words.extend(command.iter().map(AsRef::as_ref));
        Self {
            subject: ChildProcess::start(ADIEU, words).expect("the command starts"),
        }
    }

    /// The rest of the first line of the program's output that begins with this.
    pub(crate) async fn line(&mut self, beginning: &str) -> String {
        match timeout(PATIENCE, self.subject.line(beginning)).await {
            Ok(Ok(line)) => line,
            missed => {
                let said = self.said().await;
                panic!("`{beginning}` was not printed ({missed:?}); adieu said: {said:#?}")
            }
        }
    }

    /// What is left of what adieu has said.
    async fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let moment = Duration::from_secs(1);
        while let Ok(Ok(line)) = timeout(moment, self.subject.error_line("")).await {
            said.push(line);
        }
        said
    }

    /// The next line of what adieu says that has these words.
    pub(crate) async fn says(&mut self, words: &str) -> String {
        let line = timeout(PATIENCE, self.subject.error_line(words)).await;
        let line = line.unwrap_or_else(|_| panic!("`{words}` was not said in time"));
        line.unwrap_or_else(|_| panic!("`{words}` was never said"))
    }

    /// Where it answers for health, with `--health 127.0.0.1:0`.
    pub(crate) async fn health(&mut self) -> SocketAddr {
        let line = self.says("health on http://").await;
        let address = line
            .rsplit_once("//")
            .and_then(|(_, it)| it.split('/').next());
        address.and_then(|it| it.parse().ok()).expect("an address")
    }

    /// Waits until it is ready, which is a moment after the command has begun. With `--health 127.0.0.1:0`.
    pub(crate) async fn ready(&mut self) {
        let address = self.health().await;
        until("it is ready", || {
            crate::health::health(address, "/readyz").0 == 0
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.subject.pid(), signal);
    }

    pub(crate) async fn end(self) -> ProcessEnd {
        let end = timeout(PATIENCE, self.subject.end()).await;
        end.expect("an end in time").expect("an end")
    }

    /// Its exit code and what it said.
    pub(crate) async fn code(self) -> (i32, String) {
        let end = self.end().await;
        (end.status.code().expect("a code"), end.errors)
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, signal).expect("the process is there");
}

/// The state of a process as /proc names it: `S`, `Z` and so on; `None` once it is gone.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Those that it looks after: its guardian is none of them.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    below
        .split_ascii_whitespace()
        .filter_map(|it| it.parse().ok())
        .filter(|it| !is_guardian(*it))
        .collect()
}

pub(crate) fn is_guardian(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"adieu-guardian\n")
}

/// Waits until a process that is not our child has ended; whether it has.
pub(crate) fn ends(pid: i32, patience: Duration) -> bool {
    has(pid, PollFlags::IN, patience)
}

/// Waits until it is reaped. A kernel before 6.9 does not report that; then it takes the whole time.
pub(crate) fn is_reaped(pid: i32, patience: Duration) -> bool {
    has(pid, PollFlags::empty(), patience) || state(pid).is_none()
}

fn has(pid: i32, events: PollFlags, patience: Duration) -> bool {
    let pid = Pid::from_raw(pid).expect("a process id");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let patience = Timespec::try_from(patience).expect("a time");
    let mut asked = [PollFd::new(&process, events)];
    poll(&mut asked, Some(&patience)).is_ok_and(|count| count > 0)
}

/// Looks until it is so, or only a broken promise can be the reason.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!(comes_true(PATIENCE, is_so), "{what}");
}

pub(crate) fn comes_true(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Another program of the workspace: it lies beside ours, where the whole suite has been built, or is built now.
pub(crate) fn built(name: &str) -> String {
    let folder = Path::new(ADIEU).parent().expect("a directory");
    let program = folder.join(name);
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", name]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let status = build.status().expect("cargo runs");
        assert!(status.success(), "{name}: {status}");
    }
    program.to_str().expect("a path").to_owned()
}
