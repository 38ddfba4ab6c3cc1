//! What a life of the command leaves behind, when another one follows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

use crate::restart::SERVER;
use crate::support::{PATIENCE, Wrapper, ends, kill, run};

const FIRST: &str = "os.environ['SERVER_STARTER_GENERATION'] == '1'";

/// Has a child in the group end, that its parent, in a session of its own and deaf, never waits for.
const ZOMBIE: &str = r#"
import os, signal
def leave_zombie():
    mine, theirs = os.pipe()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os._exit(0)
        os.setsid()
        os.write(theirs, b"x")
        while True:
            signal.pause()
    os.read(mine, 1)
"#;

/// A zombie holds nothing, and its parent may never wait for it: a group of zombies is gone.
#[tokio::test]
async fn a_zombie_in_the_group_holds_no_restart_up() {
    let server = format!("{ZOMBIE}\nif {FIRST}: leave_zombie()\n{SERVER}");
    let options = ["--listen", "tcp:127.0.0.1:0", "--grace", "2s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &server]);
    wrapper.line("pid ").await;
    wrapper.signal(Signal::HUP);
    wrapper.line("pid ").await;
    let said = wrapper.says("the old process (pid ").await;
    assert!(said.ends_with("ended with exit code 0"), "{said}");
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

#[test]
fn a_zombie_in_the_group_holds_no_start_up() {
    let script = format!("{ZOMBIE}\nleave_zombie()\nprint('up', flush=True)\nos._exit(5)");
    let options = [
        "--restart",
        "on-failure",
        "--restart-limit",
        "1",
        "--restart-delay",
        "1ms",
        "--grace",
        "300ms",
    ];
    let (code, out, said) = run(&options, &["/usr/bin/python3", "-c", &script]);
    assert_eq!((code, out.as_str()), (5, "up\nup\n"), "{said}");
}

/// A daemon with a lock of its own, in a session of its own.
const DAEMON: &str = r#"
import fcntl, os, signal, sys
mine, theirs = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    lock = open(sys.argv[1], "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("has the lock", flush=True)
    except BlockingIOError:
        print("another process has the lock", flush=True)
    os.write(theirs, b"x")
    signal.sigwait([signal.SIGTERM])
    print("asked to end", flush=True)
    os._exit(0)
os.read(mine, 1)
os._exit(3)
"#;

/// A daemon outside the group is asked to end before the next start, which needs what it holds.
#[test]
fn a_daemon_of_one_life_is_ended_before_the_next() {
    let folder = tempfile::TempDir::new().unwrap();
    let lock = folder.path().join("lock");
    let command = ["/usr/bin/python3", "-c", DAEMON, lock.to_str().unwrap()];
    let options = [
        "--restart",
        "on-failure",
        "--restart-limit",
        "1",
        "--restart-delay",
        "1ms",
    ];
    let (code, out, said) = run(&options, &command);
    let life = "has the lock\nasked to end\n";
    assert_eq!((code, out), (3, life.repeat(2)), "{said}");
}

/// The stop that comes while one that is deaf has its grace has a grace of its own, and no more.
#[tokio::test]
async fn a_stop_does_not_wait_for_the_restart() {
    let script = "import os, signal, subprocess\n\
                  signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                  subprocess.Popen(['sleep', '1000'])\n\
                  os._exit(5)";
    let options = ["--restart", "on-failure", "--grace", "2s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", script]);
    wrapper.says("ended with exit code 5").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 5, "{said}");
    assert_eq!(said.matches(" started (pid ").count(), 1, "{said}");
}

/// The old command dies while the next one starts: what it left in its group goes all the same.
#[tokio::test]
async fn what_is_left_goes_when_the_old_one_dies_early() {
    let folder = tempfile::TempDir::new().unwrap();
    let go = folder.path().join("go");
    let server = format!(
        "import os, subprocess\n\
         if {FIRST}: print('left', subprocess.Popen(['sleep', '1000']).pid, flush=True)\n\
         if not {FIRST}:\n    os.mkfifo({go:?})\n    print('starting', flush=True)\n    open({go:?}).read()\n\
         {SERVER}"
    );
    let options = ["--listen", "tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &server]);
    let left: i32 = wrapper.line("left ").await.parse().unwrap();
    let first = wrapper.line("pid ").await;
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::HUP);
    wrapper.line("starting").await;
    kill(
        first.split(' ').next().unwrap().parse().unwrap(),
        Signal::KILL,
    );
    wrapper.says("takes over before it is ready").await;
    assert!(ends(left, PATIENCE));
    std::fs::write(&go, "").unwrap();
    wrapper.line("pid ").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

/// A server that hangs has accepted no client when it is replaced: those that wait are answered by the next one.
#[tokio::test]
async fn what_waits_in_the_queue_of_one_that_hangs_is_answered_by_the_next() {
    let server = format!(
        "import os, select, socket, time\nif {FIRST}:\n    select.select([socket.socket(fileno=3)], [], [])\n    \
         print('hangs', flush=True)\n    time.sleep(1000)\n{SERVER}"
    );
    let options = ["--listen", "tcp:127.0.0.1:0", "--grace", "3s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &server]);
    let address = wrapper.says("listening on tcp:").await;
    let address = address.rsplit_once("tcp:").expect("an address").1;
    wrapper.says(" ready after ").await;
    let mut client = TcpStream::connect(address).unwrap();
    // Longer than the old one is waited for by far; without this it would be forever.
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    wrapper.line("hangs").await;
    wrapper.signal(Signal::HUP);
    wrapper.says("1 left in its queue").await;
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

/// A server that put itself in the background understands the signal that its command would.
#[tokio::test]
async fn a_daemon_is_sent_what_the_map_says() {
    let script = "import os, signal\n\
                  signal.signal(signal.SIGQUIT, lambda *_: (print('quit', flush=True), os._exit(0)))\n\
                  if os.fork() == 0:\n\x20   os.setsid()\n\x20   print('up', flush=True)\n\x20   while True: signal.pause()\n\
                  os._exit(0)";
    let options = ["--signal", "term=quit"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", script]);
    wrapper.line("up").await;
    wrapper.says("waiting for what it left").await;
    wrapper.signal(Signal::TERM);
    wrapper.line("quit").await;
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("SIGQUIT to what it left: python3 ("),
        "{said}"
    );
}
