//! Deaths and deaf ears: nothing hangs, nothing is orphaned, the exit says why.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ADIEU, PATIENCE, Wrapper, children, comes_true, kill, state, until};

#[tokio::test]
async fn a_command_that_is_killed_is_reported() {
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", "echo main $$; sleep 1000"]);
    let main: i32 = wrapper.line("main ").await.parse().unwrap();
    let [sleep] = wait_for_child(main);
    kill(main, Signal::KILL);
    let (code, said) = wrapper.code().await;
    assert_eq!((code, state(sleep)), (137, None), "{said}");
    assert!(said.contains("was ended by SIGKILL"), "{said}");
}

fn wait_for_child(pid: i32) -> [i32; 1] {
    until("it has a child", || children(pid).len() == 1);
    [children(pid)[0]]
}

#[tokio::test]
async fn the_command_dies_with_the_wrapper() {
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", "trap '' TERM; echo main $$; read line"]);
    let main: i32 = wrapper.line("main ").await.parse().unwrap();
    wrapper.signal(Signal::KILL);
    wrapper.end().await;
    // A zombie waits for whoever adopts it, which is not ours to see to.
    until("it is gone", || matches!(state(main), None | Some('Z')));
}

/// Nobody reads what the command writes: it waits, and we do not.
#[test]
fn a_full_pipe_holds_nobody_up() {
    for full in ["stdout", "stderr"] {
        let (reader, writer) = std::io::pipe().unwrap();
        let script = "trap 'exit 5' TERM; while :; do head -c 65536 /dev/zero || exit; done";
        let mut command = Command::new(ADIEU);
        command
            .args(["run", "--grace", "500ms", "--", "sh", "-c"])
            .arg(if full == "stdout" {
                script.to_owned()
            } else {
                format!("exec 1>&2; {script}")
            })
            .stdin(Stdio::null());
        if full == "stdout" {
            command.stdout(writer).stderr(Stdio::null());
        } else {
            command.stdout(Stdio::null()).stderr(writer);
        }
        let mut child = command.spawn().unwrap();
        drop(command);
        let pid = Pid::from_child(&child);
        let is_full = || {
            let below = descendants(pid.as_raw_nonzero().get());
            below.iter().any(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/wchan"))
                    .is_ok_and(|it| it.contains("pipe_write"))
                    || std::fs::read_to_string(format!("/proc/{pid}/syscall"))
                        .is_ok_and(|it| it.starts_with("1 "))
            })
        };
        assert!(comes_true(PATIENCE, is_full), "{full} fills");
        kill_process(pid, Signal::TERM).unwrap();
        let number = pid.as_raw_nonzero().get();
        let ended = || matches!(state(number), None | Some('Z'));
        assert!(comes_true(PATIENCE, ended), "{full}");
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(5 | 137)), "{full}: {status}");
        drop(reader);
    }
}

fn descendants(pid: i32) -> Vec<i32> {
    let mut all = children(pid);
    let mut next = 0;
    while next < all.len() {
        all.extend(children(all[next]));
        next += 1;
    }
    all
}

#[test]
fn a_closed_standard_error_is_nobodys_problem() {
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

/// With no process to be had, the message says so.
#[test]
fn a_limit_on_processes_is_said() {
    let tried = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--clear-groups",
            "prlimit",
            "--nproc=1",
            ADIEU,
        ])
        .args(["run", "--", "true"])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = tried else {
        println!("skipped: no setpriv here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.contains("adieu") {
        println!("skipped: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("process"), "{said}");
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
