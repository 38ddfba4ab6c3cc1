//! Under a seccomp profile that refuses what docker's default profile refuses.
// What is done by tracing is done on one kind of processor.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

use std::fs;
use std::net::TcpStream;

use adieu_load::{Load, Mode, Target};
use adieu_testkit::{ChildProcess, ReservedPort, iterations};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::cloak::{PLAIN, SLOW};
use crate::support::{ADIEU, PATIENCE, Wrapper, children, kill, until};

/// The numbers of system calls on x86_64 and, where they differ, on aarch64.
const PIDFD_GETFD: i64 = 438;
const PTRACE: i64 = if cfg!(target_arch = "x86_64") {
    101
} else {
    117
};
const PROCESS_VM_READV: i64 = if cfg!(target_arch = "x86_64") {
    310
} else {
    270
};

/// Has these calls fail with EPERM from here on, and becomes the program that is named after them.
const REFUSE: &str = r#"
import ctypes, os, struct, sys
def step(code, skip, number):
    return struct.pack("HBBI", code, 0, skip, number)
steps = step(0x20, 0, 0)
for number in filter(None, sys.argv[1].split(",")):
    steps += step(0x15, 1, int(number)) + step(0x06, 0, 0x00050001)
steps += step(0x06, 0, 0x7fff0000)
text = ctypes.create_string_buffer(steps)
program = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(text))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"#;

fn start(refused: &[i64], options: &[&str], command: &[&str]) -> Wrapper {
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let refused = refused.join(",");
    let mut words = vec!["-c", REFUSE, &refused, ADIEU, "run"];
    words.extend(options);
    words.push("--");
    words.extend(command);
    let subject = ChildProcess::start("/usr/bin/python3", words).expect("it starts");
    Wrapper { subject }
}

/// Docker's profile refuses to take a copy of the socket, and allows to trace a child.
#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn the_queue_survives_where_no_socket_can_be_taken() {
    for _ in 0..iterations(2, 20) {
        let port = ReservedPort::reserve().expect("a port");
        let python = ["/usr/bin/python3", "-c", PLAIN, &port.number().to_string()];
        // Its queue is counted in a table that has the connections of all tests: on a busy machine that takes seconds.
        let options = ["--grace", "50s"];
        let wrapper = start(&[PIDFD_GETFD, PROCESS_VM_READV], &options, &python);
        let target = Target::tcp(port.address());
        target.reachable(PATIENCE).await.expect("it listens");
        let load = Load::http1(target, "/").mode(Mode::Fresh).start();
        let answered = timeout(PATIENCE, load.answered(300)).await;
        answered.expect("answers");
        wrapper.signal(Signal::TERM);
        let tally = timeout(PATIENCE, load.finish()).await.expect("in time");
        let (code, said) = wrapper.code().await;
        assert_eq!((tally.lost(), code), (0, 0), "{tally} {said}");
        assert!(
            said.contains("1 listening socket closed to new connections"),
            "{said}"
        );
        assert!(!said.contains("cannot be drained"), "{said}");
    }
}

/// Sleeps in a call that a signal would end; if it ends, sleeps elsewhere.
#[cfg(target_arch = "x86_64")]
const SLEEPER: &str = r#"
import ctypes, socket
other = socket.create_server(("127.0.0.1", 0))
listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
libc = ctypes.CDLL(None)
libc.accept(listener.fileno(), None, None)
libc.pause()
"#;

/// A traced process sleeps on where it slept, and has its registers and its signals as before.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_call_in_which_the_command_sleeps_goes_on() {
    const ACCEPT: &str = "43 ";
    // A signal that is ignored if it has no handler: nothing but us can disturb the call.
    let options = ["--signal", "term=winch", "--grace", "50s"];
    let command = ["/usr/bin/python3", "-c", SLEEPER];
    let mut wrapper = start(&[PIDFD_GETFD], &options, &command);
    let port: u16 = wrapper.line("port ").await.parse().expect("a port");
    let [server] = children(wrapper.subject.pid())[..] else {
        panic!("there is one command");
    };
    let of = |name: &str| fs::read_to_string(format!("/proc/{server}/{name}")).expect(name);
    let blocked = || {
        let status = of("status");
        let line = status.lines().find(|line| line.starts_with("SigBlk"));
        line.expect("a mask").to_owned()
    };
    until("it sleeps", || of("syscall").starts_with(ACCEPT));
    let before = (of("syscall"), blocked());
    wrapper.signal(Signal::TERM);
    wrapper
        .says("2 listening sockets closed to new connections")
        .await;
    wrapper.says("SIGWINCH to python3").await;
    until("it sleeps", || !of("syscall").starts_with("running"));
    assert_eq!((of("syscall"), blocked()), before);
    let refused = TcpStream::connect(("127.0.0.1", port));
    assert!(refused.is_err(), "hidden");
    assert!(of("status").contains("TracerPid:\t0\n"));
    kill(server, Signal::KILL);
    wrapper.end().await;
}

/// Where nothing helps it is said before the first connection comes, with what to do.
#[tokio::test]
async fn what_cannot_be_hidden_is_said_at_the_start() {
    const WORDS: &str = "cannot be drained at a stop here";
    let refused = [PIDFD_GETFD, PTRACE];
    let sleep = ["sleep", "1000"];
    let mut wrapper = start(&refused, &[], &sleep);
    let line = wrapper.says(WORDS).await;
    assert!(line.contains("--cap-add SYS_PTRACE"), "{line}");
    assert!(line.contains("--listen tcp:0.0.0.0:8000"), "{line}");
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
    // One that needs no hiding, or has it done elsewhere, has nothing to be warned of.
    for options in [&["--no-cloak"][..], &["--listen", "tcp:127.0.0.1:0"]] {
        let mut wrapper = start(&refused, options, &sleep);
        wrapper.says("started (pid").await;
        wrapper.signal(Signal::TERM);
        let (_, said) = wrapper.code().await;
        assert!(!said.contains(WORDS), "{options:?}: {said}");
    }
    // Nor is there anything to be said where it works.
    let mut wrapper = start(&[], &[], &sleep);
    wrapper.says("started (pid").await;
    wrapper.signal(Signal::TERM);
    let (_, said) = wrapper.code().await;
    assert!(!said.contains(WORDS), "{said}");
}

/// A server that waits in `select` is seen to be ready, though its memory may not be read by a call of its own.
#[tokio::test]
async fn a_server_in_select_gets_ready() {
    let options = ["--listen", "tcp:127.0.0.1:0"];
    let command = ["/usr/bin/python3", "-c", SLOW];
    let mut wrapper = start(&[PROCESS_VM_READV], &options, &command);
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}
