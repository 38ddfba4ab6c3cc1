//! Hand-offs that come to nothing: the old process goes on, and says why.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::lineage::{Lineage, PATIENCE};

fn begun(web: &mut Lineage) -> u32 {
    web.signal(web.pid(), Signal::USR2);
    let pid = web.wait_for("handing over to process ");
    pid.split(':')
        .next()
        .expect("a number")
        .parse()
        .expect("a number")
}

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_start_up_that_hangs_is_ended() {
    let mut web = Lineage::start("127.0.0.1:0", &["--handoff-timeout", "300ms"]);
    // One that knows nothing of us, one whose setup does not return, one that cannot be asked to end.
    for script in [
        "exec sleep 600",
        r#"exec "$WEB" --warm-up 1h "$@""#,
        "trap '' TERM; exec sleep 600",
    ] {
        web.next_is(script);
        let pid = begun(&mut web);
        let why = web.wait_for("the hand-off failed, and this process goes on: ");
        assert_eq!(why, format!("process {pid} was not ready within 300 ms"));
        assert!(is_gone(pid), "{script}");
        assert_eq!(web.ask("/readyz").expect("an answer").0, 200);
        let last = &web.health()["handoff"];
        assert_eq!(
            (&last["outcome"], &last["why"]),
            (&"failed".into(), &why.into())
        );
        assert!(last["age_ms"].is_number(), "{last}");
    }
    let timeline = web.report()["timeline"].to_string();
    assert_eq!(timeline.matches("hand-off failed").count(), 3, "{timeline}");
    assert_eq!(web.stop(), Some(0));
}

#[test]
fn a_program_that_is_not_there_or_cannot_run_is_named() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    let program = web.directory.path().join("web");
    std::fs::remove_file(&program).expect("it was there");
    let why = web.hand_over_in_vain();
    assert!(
        why.contains(&format!("{} cannot be started", program.display())),
        "{why}"
    );
    assert_eq!(web.holders(), BTreeSet::from([web.pid()]));
    assert_eq!(web.stop(), Some(0));
}

#[test]
fn a_script_that_does_not_exec_is_told_to() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    web.next_is(r#""$WEB" "$@"; exit $?"#);
    let why = web.hand_over_in_vain();
    assert!(why.contains("exit code 2"), "{why}");
    assert!(
        web.log()
            .contains("a script around the program must `exec` it")
    );
    assert_eq!(web.stop(), Some(0));
}

#[test]
fn a_stop_in_the_middle_wins_and_takes_the_new_process_with_it() {
    const DEAF: &str = "next: cannot be asked to end";
    let deaf = format!("trap '' TERM; echo '{DEAF}'; exec sleep 600");
    for script in ["exec sleep 600", r#"exec "$WEB" --warm-up 1h "$@""#, &deaf] {
        let mut web = Lineage::start("127.0.0.1:0", &[]);
        web.next_is(script);
        let pid = begun(&mut web);
        if script == deaf && !web.log().contains(DEAF) {
            web.wait_for(DEAF);
        }
        assert_eq!(web.stop(), Some(0), "{}", web.log());
        assert!(is_gone(pid), "{script}");
        let report = web.last_report();
        assert_eq!(report["cause"], "sigterm");
    }
}

/// Says something else on the channel, and when it is asked to end.
const STRANGER: &str = r#"exec /usr/bin/python3 -c '
import json, os, signal, socket
channel = socket.socket(fileno=json.loads(os.environ["ADIEU_HANDOFF"])["channel"])
def asked(*_):
    print("stranger: asked to end", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, asked)
channel.sendall(b"hello\n")
if channel.recv(100):
    print("stranger: told something", flush=True)
while True:
    signal.pause()
'"#;

/// It is not told to accept, and it is asked to end before it is killed.
#[test]
fn a_program_that_speaks_another_language_is_asked_to_end() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    web.next_is(STRANGER);
    let why = web.hand_over_in_vain();
    assert!(why.ends_with(" does not speak our language"), "{why}");
    let asked = "stranger: asked to end";
    if !web.log().contains(asked) {
        web.wait_for(asked);
    }
    assert!(!web.log().contains("stranger: told something"));
    assert_eq!(web.stop(), Some(0));
}

/// The new process is ended when the stop begins, and not when the last request has been answered.
#[test]
fn a_stop_does_not_keep_the_new_process_until_its_end() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    web.next_is("exec sleep 600");
    let mut upload = TcpStream::connect(web.listen.expect("a port")).expect("it listens");
    let head =
        "POST /upload HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n";
    upload.write_all(head.as_bytes()).expect("sent");
    let mut line = String::new();
    let mut answer = BufReader::new(upload.try_clone().expect("a copy"));
    answer.read_line(&mut line).expect("it has begun");
    assert!(line.contains(" 100 "), "{line}");
    let pid = begun(&mut web);
    web.signal(web.pid(), Signal::TERM);
    let begun = Instant::now();
    while !is_gone(pid) {
        assert!(begun.elapsed() < PATIENCE, "it lives on");
        thread::yield_now();
    }
    // The old one waits for us, and for no other process.
    upload.write_all(b"ab").expect("it still reads");
    let mut text = String::new();
    answer.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("HTTP/1.1 200 "), "{text}");
    let old = web.pid();
    assert_eq!(web.await_end(old), Some(0));
}

#[test]
fn a_second_one_is_refused_while_the_first_is_under_way() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    web.next_is("exec sleep 600");
    begun(&mut web);
    web.signal(web.pid(), Signal::USR2);
    assert_eq!(web.wait_for("no hand-off: "), "one is in progress already");
    assert_eq!(web.stop(), Some(0));
}
