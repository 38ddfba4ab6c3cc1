//! Process numbers that are used again: a process that has got one is left alone.

use adieu_testkit::ChildProcess;
use rustix::process::{Pid, Signal, test_kill_process};
use tokio::time::timeout;

use crate::support::{PATIENCE, Wrapper, children, ends, is_guardian, kill};

/// Becomes the leader of a group of its own, with a number that is given. Only root may choose.
const BYSTANDER: &str = r#"
import ctypes, os, struct, sys, time
number = ctypes.c_int(int(sys.argv[1]))
SIGCHLD, CLONE3 = 17, 435
arguments = struct.pack("11Q", 0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(number), 1, 0)
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.syscall(CLONE3, arguments, len(arguments))
if pid == 0:
    os.setpgid(0, 0)
    os.execv("/bin/sh", ["sh", "-c", "echo has it; exec sleep 1000"])
if pid < 0:
    print("no:", os.strerror(ctypes.get_errno()), flush=True)
print("end:", os.waitpid(pid, 0)[1], flush=True)
"#;

/// Its parent, and its number; `None` where no number can be chosen.
async fn bystander(number: i32) -> Option<ChildProcess> {
    assert_eq!(
        test_kill_process(Pid::from_raw(number).expect("a number")),
        Err(rustix::io::Errno::SRCH),
        "{number} is free"
    );
    let words = ["-c", BYSTANDER, &number.to_string()];
    let mut parent = ChildProcess::start("/usr/bin/python3", words).expect("it starts");
    let first = timeout(PATIENCE, parent.line("")).await;
    let first = first.expect("in time").expect("a line");
    if let Some(why) = first.strip_prefix("no: ") {
        fixture_skip::not_possible(format!("no process can be given a number: {why}"));
        return None;
    }
    assert_eq!(first, "has it");
    Some(parent)
}

/// It lives; then it may end.
async fn is_unharmed(number: i32, mut parent: ChildProcess) {
    let pid = Pid::from_raw(number).expect("a number");
    // Its end would be told before ours is.
    let _ = rustix::process::kill_process(pid, Signal::USR2);
    let end = timeout(PATIENCE, parent.line("end: ")).await;
    let end = end.expect("in time").expect("a line");
    assert_eq!(
        end,
        Signal::USR2.as_raw().to_string(),
        "the signal it died of"
    );
}

/// Between two lives there is no command, and no group of it.
#[tokio::test]
async fn a_signal_between_two_processes_reaches_none() {
    let options = [
        "--group",
        "--restart",
        "on-failure",
        "--restart-delay",
        "50s",
    ];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", "echo pid $$; exit 3"]);
    let number: i32 = wrapper.line("pid ").await.parse().expect("a number");
    wrapper.says("start number 2 in").await;
    let Some(parent) = bystander(number).await else {
        return;
    };
    wrapper.signal(Signal::USR1);
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
    is_unharmed(number, parent).await;
}

/// Its leader ends, and later the other one leaves the group: the kernel does not report that it is empty.
const LEAVES: &str = r#"
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
leader = os.getpid()
if os.fork() == 0:
    print("left", leader, os.getpid(), flush=True)
    signal.sigwait([signal.SIGUSR1])
    os.setsid()
    print("alone", flush=True)
    signal.pause()
os._exit(0)
"#;

/// The guardian kills what is ours, whatever has become of the numbers it got.
#[tokio::test]
async fn a_group_that_has_become_another_is_spared() {
    let mut wrapper = Wrapper::start(&[], &["/usr/bin/python3", "-c", LEAVES]);
    let line = wrapper.line("left ").await;
    let (number, left) = line.split_once(' ').expect("two numbers");
    let (number, left): (i32, i32) = (number.parse().unwrap(), left.parse().unwrap());
    wrapper.says("waiting for what it left").await;
    kill(left, Signal::USR1);
    wrapper.line("alone").await;
    let Some(parent) = bystander(number).await else {
        return;
    };
    let all = std::fs::read_to_string(format!(
        "/proc/{0}/task/{0}/children",
        wrapper.subject.pid()
    ));
    let all = all.expect("children");
    let mut numbers = all.split_ascii_whitespace().map(|it| it.parse().unwrap());
    let guardian: i32 = numbers.find(|it| is_guardian(*it)).expect("a guardian");
    assert_eq!(children(wrapper.subject.pid()), [left]);
    wrapper.signal(Signal::KILL);
    assert!(ends(left, PATIENCE), "it is ours");
    assert!(ends(guardian, PATIENCE), "it is done");
    is_unharmed(number, parent).await;
}

/// As in the case before, but the one that is left is in the group, and has emptied its environment.
#[tokio::test]
async fn what_is_left_of_a_group_goes_without_its_leader() {
    let script = "import os, signal\nparent = os.getpid()\n\
                  if os.fork() == 0:\n\x20   os.execve('/bin/sh', ['sh', '-c', 'echo left $$; exec sleep 1000'], {})\n\
                  os._exit(0)";
    let mut wrapper = Wrapper::start(&[], &["/usr/bin/python3", "-c", script]);
    let left: i32 = wrapper.line("left ").await.parse().expect("a number");
    wrapper.says("waiting for what it left").await;
    kill(wrapper.subject.pid(), Signal::KILL);
    assert!(ends(left, PATIENCE), "it is ours");
}
