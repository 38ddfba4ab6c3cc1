//! Beside tini and dumb-init: each row is asserted for ours and printed for theirs.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{ADIEU, PATIENCE, children, ends, is_reaped, state};

/// What a peer that never does it is given.
const GIVE_UP: Duration = Duration::from_secs(2);
/// A peer that does not wait for descendants is gone by then; on a machine so busy that it is not, it passes for one that
/// does. Ours says that it waits.
const UNTIL_IT_WOULD_HAVE_ENDED: Duration = Duration::from_millis(500);

const WRAPPERS: [(&str, &[&str]); 3] = [
    ("adieu run", &[ADIEU, "run", "--grace", "500ms", "--"]),
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
struct Wrapped {
    child: Child,
    lines: Receiver<String>,
    /// What the wrapper says itself.
    said: Receiver<String>,
    /// Processes that the script has named.
    named: Vec<i32>,
}

impl Wrapped {
    fn start(wrapper: &[&str], script: &str) -> Self {
        let mut child = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .args(["sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("it starts");
        let lines = lines_of(child.stdout.take().expect("its output"));
        let said = lines_of(child.stderr.take().expect("its errors"));
        Self {
            child,
            lines,
            said,
            named: Vec::new(),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    /// Whether the script says this.
    fn says(&self, words: &str, patience: Duration) -> bool {
        self.lines
            .recv_timeout(patience)
            .is_ok_and(|line| line == words)
    }

    /// Processes that the script names, in any order.
    fn pids<const N: usize>(&mut self) -> [i32; N] {
        let pids = [(); N].map(|()| {
            let line = self.lines.recv_timeout(PATIENCE).expect("a line");
            line.parse().expect("a process id")
        });
        self.named.extend(pids);
        pids
    }

    /// Its exit code, if it ends in this time.
    fn ends_within(&mut self, patience: Duration) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        if !ends(self.child.id().cast_signed(), patience) {
            return None;
        }
        let status = self.child.wait().expect("it can be waited for");
        let killed = status.signal().map(|signal| 128 + signal);
        status.code().or(killed)
    }
}

fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    lines
}

impl Drop for Wrapped {
    /// Ends what a peer leaves behind, by the numbers that the script has named while they are still its own.
    fn drop(&mut self) {
        for pid in &self.named {
            if state(*pid).is_some_and(|state| state != 'Z') {
                let _ = kill_process(Pid::from_raw(*pid).expect("a number"), Signal::KILL);
            }
        }
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

/// What is promised may take long on a busy machine; what is not is not waited for.
fn patience(wrapper: &[&str]) -> Duration {
    if wrapper[0] == ADIEU {
        PATIENCE
    } else {
        GIVE_UP
    }
}

fn exit_code(wrapper: &[&str], script: &str) -> String {
    let code = Wrapped::start(wrapper, script).ends_within(PATIENCE);
    code.map_or_else(|| "never ends".to_owned(), |code| code.to_string())
}

fn passes_on(wrapper: &[&str]) -> String {
    let script = "trap 'echo heard; exit' USR1; echo $$; while :; do sleep 0.01; done";
    let mut wrapped = Wrapped::start(wrapper, script);
    let [_shell] = wrapped.pids();
    wrapped.signal(Signal::USR1);
    yes(wrapped.says("heard", patience(wrapper)))
}

/// Orphans of orphans that are ended: then they are gone, or zombies forever.
fn reaps(wrapper: &[&str]) -> String {
    let script = "for i in 1 2 3; do (sh -c 'echo $$; exec sleep 1000' &); done; echo $$; \
                  while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(wrapper, script);
    let all: [i32; 4] = wrapped.pids();
    let shell = children(wrapped.child.id().cast_signed());
    let orphans: Vec<i32> = all.into_iter().filter(|it| !shell.contains(it)).collect();
    for orphan in &orphans {
        let _ = kill_process(Pid::from_raw(*orphan).expect("a number"), Signal::KILL);
    }
    yes(orphans.iter().all(|it| is_reaped(*it, patience(wrapper))))
}

/// The one that is left ends at its signal, and the wrapper must be there to see it.
fn waits(wrapper: &[&str]) -> String {
    let script = "trap 'exit 0' USR2; \
                  sh -c 'trap \"echo done; exit\" USR1; echo $$; kill -USR2 $PPID; while :; do sleep 0.01; done' & \
                  while :; do sleep 0.01; done";
    let mut wrapped = Wrapped::start(wrapper, script);
    let [left] = wrapped.pids();
    let is_waiting = if wrapper[0] == ADIEU {
        let mut said = std::iter::from_fn(|| wrapped.said.recv_timeout(PATIENCE).ok());
        said.any(|line| line.contains("waiting for what it left"))
    } else {
        // One that does not wait ends with its command, at once.
        wrapped.ends_within(UNTIL_IT_WOULD_HAVE_ENDED).is_none()
    };
    let _ = kill_process(Pid::from_raw(left).expect("a number"), Signal::USR1);
    yes(is_waiting && wrapped.says("done", PATIENCE) && wrapped.ends_within(PATIENCE) == Some(0))
}

fn escalates(wrapper: &[&str]) -> String {
    let script = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(wrapper, script);
    let [shell] = wrapped.pids();
    wrapped.signal(Signal::TERM);
    yes(wrapped.ends_within(patience(wrapper)).is_some() && state(shell).is_none())
}

fn kills_group(wrapper: &[&str]) -> String {
    let script = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' & \
                  trap 'exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(wrapper, script);
    let both: [i32; 2] = wrapped.pids();
    wrapped.signal(Signal::TERM);
    wrapped.ends_within(patience(wrapper));
    yes(both.iter().all(|pid| state(*pid).is_none()))
}
