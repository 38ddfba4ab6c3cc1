//! Beside tini and dumb-init: each row is asserted for ours and printed for theirs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{ADIEU, comes_true, state};

/// What a peer that never does it is given.
const GIVE_UP: Duration = Duration::from_secs(2);

const WRAPPERS: [(&str, &[&str]); 3] = [
    (
        "adieu run",
        &[ADIEU, "run", "--quiet", "--grace", "500ms", "--"],
    ),
    ("tini", &["tini", "-s", "--"]),
    ("dumb-init", &["dumb-init", "--"]),
];

type Row = (&'static str, fn(&[&str]) -> String, &'static str);

const ROWS: [Row; 7] = [
    ("exit code 7", |it| exit_code(it, "exit 7"), "7"),
    ("killed by SIGKILL", |it| exit_code(it, "kill -9 $$"), "137"),
    ("passes SIGUSR1 on", passes_on, "yes"),
    ("reaps double-forked grandchildren", reaps, "yes"),
    ("waits for all descendants", waits, "yes"),
    ("ends a command that ignores SIGTERM", escalates, "yes"),
    ("kills its whole group", kills_group, "yes"),
];

#[test]
fn beside_tini_and_dumb_init() {
    let mut table = String::new();
    for (what, row, promised) in ROWS {
        let _ = write!(table, "{what:36}");
        for (name, words) in WRAPPERS {
            let found = is_there(words[0]).then(|| row(words));
            let found = found.as_deref().unwrap_or("not installed");
            let _ = write!(table, " | {name}: {found}");
            if name == "adieu run" {
                assert_eq!(found, promised, "{what}");
            }
        }
        table.push('\n');
    }
    println!("{table}");
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|it| it.join(program).is_file())
}

/// A wrapper around a shell script, in a group of its own so that all of it can be ended.
struct Wrapped(Child);

impl Wrapped {
    fn start(wrapper: &[&str], script: &str, folder: &Path) -> Self {
        let child = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .args(["sh", "-c", script])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self(child.expect("it starts"))
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("it is there");
    }

    fn ends_within(&mut self, patience: Duration) -> Option<i32> {
        let begun = std::time::Instant::now();
        while begun.elapsed() < patience {
            if let Some(status) = self.0.try_wait().expect("it can be waited for") {
                use std::os::unix::process::ExitStatusExt;
                let killed = status.signal().map(|signal| 128 + signal);
                return status.code().or(killed);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::TempDir::new().expect("a folder")
}

/// The number that the script has written there, once it has.
fn number(folder: &Path, name: &str) -> i32 {
    let read = || {
        fs::read_to_string(folder.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    assert!(
        comes_true(crate::support::PATIENCE, || read().is_some()),
        "{name}"
    );
    read().expect("a number")
}

/// Ends what a peer leaves behind: processes of this test, by the numbers they wrote.
fn end(pids: &[i32]) {
    for pid in pids {
        if state(*pid).is_some() {
            let _ = kill_process(Pid::from_raw(*pid).expect("a number"), Signal::KILL);
        }
    }
}

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn exit_code(wrapper: &[&str], script: &str) -> String {
    let folder = folder();
    let code = Wrapped::start(wrapper, script, folder.path()).ends_within(crate::support::PATIENCE);
    code.map_or_else(|| "never ends".to_owned(), |code| code.to_string())
}

fn passes_on(wrapper: &[&str]) -> String {
    let folder = folder();
    let script = "trap 'echo 1 > heard; exit' USR1; echo $$ > pid; while :; do sleep 0.01; done";
    let mut wrapped = Wrapped::start(wrapper, script, folder.path());
    number(folder.path(), "pid");
    wrapped.signal(Signal::USR1);
    wrapped.ends_within(GIVE_UP);
    yes(folder.path().join("heard").exists())
}

fn reaps(wrapper: &[&str]) -> String {
    let folder = folder();
    let script = "for i in 1 2 3; do sh -c \"sh -c 'echo \\$\\$ > new.$i; mv new.$i pid.$i; sleep 0.1' &\"; done; \
                  echo $$ > pid; while :; do sleep 0.05; done";
    let wrapped = Wrapped::start(wrapper, script, folder.path());
    let shell = number(folder.path(), "pid");
    let orphans = [1, 2, 3].map(|it| number(folder.path(), &format!("pid.{it}")));
    // They end by themselves; then they are gone, or zombies for ever.
    let gone = comes_true(GIVE_UP * 5, || {
        orphans.iter().all(|it| state(*it).is_none())
    });
    drop(wrapped);
    end(&[shell]);
    yes(gone)
}

fn waits(wrapper: &[&str]) -> String {
    let folder = folder();
    let script = "(sleep 0.3; echo 1 > done) > /dev/null 2>&1 & exit 0";
    Wrapped::start(wrapper, script, folder.path()).ends_within(crate::support::PATIENCE);
    yes(folder.path().join("done").exists())
}

fn escalates(wrapper: &[&str]) -> String {
    let folder = folder();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(wrapper, script, folder.path());
    let shell = number(folder.path(), "pid");
    wrapped.signal(Signal::TERM);
    let is_ours = wrapper[0] == ADIEU;
    let patience = if is_ours {
        crate::support::PATIENCE
    } else {
        GIVE_UP
    };
    let ended = wrapped.ends_within(patience).is_some() && state(shell).is_none();
    end(&[shell]);
    yes(ended)
}

fn kills_group(wrapper: &[&str]) -> String {
    let folder = folder();
    let script = "sh -c 'trap \"\" TERM; echo $$ > new; mv new other; while :; do sleep 0.05; done' & \
                  trap 'exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(wrapper, script, folder.path());
    let pids = ["pid", "other"].map(|name| number(folder.path(), name));
    wrapped.signal(Signal::TERM);
    wrapped.ends_within(GIVE_UP * 5);
    let gone = pids.iter().all(|pid| state(*pid).is_none());
    end(&pids);
    yes(gone)
}
