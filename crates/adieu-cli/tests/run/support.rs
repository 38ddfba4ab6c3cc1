//! The command as a process, and what is known of processes from outside.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use adieu_load::{Subject, SubjectEnd};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

pub(crate) const ADIEU: &str = env!("CARGO_BIN_EXE_adieu");

/// Only a broken promise takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it to its end: exit code, standard output, standard error.
pub(crate) fn run(options: &[&str], command: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(ADIEU)
        .arg("run")
        .args(options)
        .arg("--")
        .args(command)
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

/// `adieu run`, under way.
pub(crate) struct Wrapper {
    pub(crate) subject: Subject,
}

impl Wrapper {
    pub(crate) fn start<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Self {
        let mut words: Vec<&OsStr> = vec!["run".as_ref()];
        words.extend(options.iter().map(OsStr::new));
        words.push("--".as_ref());
        words.extend(command.iter().map(AsRef::as_ref));
        Self {
            subject: Subject::start(ADIEU, words).expect("the command starts"),
        }
    }

    /// The rest of the first line of the program's output that begins with this.
    pub(crate) async fn line(&mut self, beginning: &str) -> String {
        let line = timeout(PATIENCE, self.subject.line(beginning)).await;
        line.expect("a line in time").expect("a line")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.subject.pid(), signal);
    }

    pub(crate) async fn end(self) -> SubjectEnd {
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

pub(crate) fn children(pid: i32) -> Vec<i32> {
    let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    below
        .split_ascii_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect()
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

/// How often something that takes long is done: a few times in the suite, often to convince.
pub(crate) fn times(few: u32, many: u32) -> u32 {
    if std::env::var_os("ADIEU_PROVE").is_some() {
        many
    } else {
        few
    }
}
