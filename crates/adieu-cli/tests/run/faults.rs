//! Deaths and deaf ears: nothing hangs, nothing is orphaned, the exit says why.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ADIEU, PATIENCE, Wrapper, children, ends, is_guardian, kill, state, until};

#[tokio::test]
async fn a_command_that_is_killed_is_reported() {
    let script = "echo main $$; sleep 1000 & echo child $!; wait";
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", script]);
    let main: i32 = wrapper.line("main ").await.parse().unwrap();
    let sleep: i32 = wrapper.line("child ").await.parse().unwrap();
    kill(main, Signal::KILL);
    let (code, said) = wrapper.code().await;
    assert_eq!((code, state(sleep)), (137, None), "{said}");
    assert!(said.contains("was ended by SIGKILL"), "{said}");
}

#[tokio::test]
async fn the_command_dies_with_the_wrapper() {
    let mut wrapper = Wrapper::start(
        &[],
        &["sh", "-c", "trap '' TERM; echo main $$; exec sleep 1000"],
    );
    let main: i32 = wrapper.line("main ").await.parse().unwrap();
    wrapper.signal(Signal::KILL);
    wrapper.end().await;
    // A zombie waits for the process that adopts it, which is not ours to see to.
    assert!(ends(main, PATIENCE));
}

/// So does what it has started: in its group, in a session of its own, and turned into a daemon.
#[tokio::test]
async fn nothing_outlives_the_wrapper() {
    let script = r#"
        trap '' TERM HUP
        sleep 1000 & echo near $!
        env -i sleep 1000 & echo bare $!
        setsid sh -c 'echo far $$; exec sleep 1000' &
        (setsid sh -c 'sh -c "echo daemon \$\$; exec sleep 1000" & ' &)
        wait"#;
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", script]);
    let mut all = Vec::new();
    for name in ["near ", "bare "] {
        all.push(wrapper.line(name).await.parse().unwrap());
    }
    // These two may come in either order.
    for _ in 0..2 {
        let line = wrapper.line("").await;
        let (name, pid) = line.split_once(' ').unwrap();
        assert!(["far", "daemon"].contains(&name), "{line}");
        all.push(pid.parse().unwrap());
    }
    let guardian = guardian_of(wrapper.subject.pid());
    wrapper.signal(Signal::KILL);
    wrapper.end().await;
    for pid in all {
        assert!(ends(pid, PATIENCE), "{pid}");
    }
    assert!(ends(guardian, PATIENCE));
}

/// It does not hold up the exit, and goes with the process that it guards.
#[tokio::test]
async fn the_guardian_holds_no_process_up() {
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", "echo main $$; exec sleep 1000"]);
    let main: i32 = wrapper.line("main ").await.parse().unwrap();
    let pid = wrapper.subject.pid();
    let guardian = guardian_of(pid);
    assert_eq!(children(pid), [main]);
    // It has its name a moment before it is alone.
    let held = || std::fs::read_dir(format!("/proc/{guardian}/fd")).map(Iterator::count);
    until("it holds the line to us, and nothing else", || {
        held().is_ok_and(|count| count == 1)
    });
    // As a service manager and a terminal send them to all.
    let status = std::fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
    let blocked = status.lines().find_map(|it| it.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        assert_ne!(blocked & (1 << (signal.as_raw() - 1)), 0, "{signal:?}");
    }
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 143);
    assert!(ends(guardian, PATIENCE));
}

/// It has the words of the wrapper's command line, and another name.
pub(crate) fn guardian_of(wrapper: i32) -> i32 {
    let words = std::fs::read(format!("/proc/{wrapper}/cmdline")).unwrap();
    let environment = std::fs::read(format!("/proc/{wrapper}/environ")).unwrap();
    let is_it = |pid: &i32| {
        let read = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        is_guardian(*pid) && read("cmdline") == words && read("environ") == environment
    };
    let find = || {
        let all = std::fs::read_dir("/proc").unwrap();
        all.filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok())
            .find(is_it)
    };
    // It may still be on its way to its place.
    until("a guardian", || find().is_some());
    find().unwrap()
}

/// Fills a pipe, says so on the other one, and waits in a write without a reader.
const FILLS: &str = r#"
import fcntl, os, signal, sys
full, other = int(sys.argv[1]), 3 - int(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
flags = fcntl.fcntl(full, fcntl.F_GETFL)
fcntl.fcntl(full, fcntl.F_SETFL, flags | os.O_NONBLOCK)
try:
    while True:
        os.write(full, bytes(4096))
except BlockingIOError:
    pass
fcntl.fcntl(full, fcntl.F_SETFL, flags)
os.write(other, b"full\n")
os.write(full, bytes(4096))
"#;

/// The command's output has no reader: the command waits, and we do not.
#[test]
fn a_full_pipe_holds_no_process_up() {
    for full in ["1", "2"] {
        let (unread, filled) = std::io::pipe().unwrap();
        let (other, said) = std::io::pipe().unwrap();
        let mut command = Command::new(ADIEU);
        command
            .args(["run", "--", "/usr/bin/python3", "-c", FILLS, full])
            .stdin(Stdio::null());
        if full == "1" {
            command.stdout(filled).stderr(said);
        } else {
            command.stdout(said).stderr(filled);
        }
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut lines = BufReader::new(other).lines();
        assert!(lines.any(|line| line.unwrap() == "full"), "{full}");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(ends(child.id().cast_signed(), PATIENCE), "{full}");
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(5), "{full}");
        drop(unread);
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" run -- sh -c 'exit 3' 2>&-", ADIEU]);
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    // A reader that has gone is the same.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(ADIEU)
        .args(["run", "--", "sh", "-c", "exit 4"])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(4));
}

/// With no process to be had, the message says so. Needs a user that has no other process, and the right to become it.
#[test]
fn a_limit_on_processes_is_said() {
    // Where only its owner may look, a copy.
    let folder = tempfile::TempDir::with_prefix("adieu-limit").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let copy = folder.path().join("adieu");
    std::fs::copy(ADIEU, &copy).unwrap();
    let nobody = ["--reuid", "64321", "--clear-groups", "prlimit"];
    if !rustix::process::geteuid().is_root() {
        return fixture_skip::not_possible("only root can become a user without processes");
    }
    let limited = |processes: &str| {
        Command::new("setpriv")
            .args(nobody)
            .arg(format!("--nproc={processes}"))
            .arg(&copy)
            .args(["run", "--", "true"])
            .stdin(Stdio::null())
            .output()
            .expect("setpriv and prlimit are in util-linux")
    };
    let output = limited("64");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "enough of them: {said}");
    // Enough for our own threads, or not even for these.
    for processes in ["1", "2", "3"] {
        let output = limited(processes);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{processes}: {said}");
        assert!(
            said.contains("the limit on processes is reached"),
            "{processes}: {said}"
        );
    }
}

/// What the command writes goes where it went without us.
#[test]
fn standard_input_is_the_commands() {
    let mut child = Command::new(ADIEU)
        .args(["run", "-q", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), out.as_str()),
        (Some(0), "hello")
    );
}
