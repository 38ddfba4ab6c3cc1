//! A service that hands over to a process of its own making, under `adieu run`.

use adieu_load::Mode;
use adieu_testkit::iterations;
use rustix::process::Signal;

use crate::health::health;
use crate::restarts_under_load::{load, nothing_failed};
use crate::support::{Wrapper, built, children, kill, state};

/// The pid that has taken over, as adieu says it.
async fn taken_over(wrapper: &mut Wrapper) -> i32 {
    let line = wrapper.says(" is the command now").await;
    let pid = line
        .split("pid ")
        .nth(1)
        .and_then(|it| it.split(' ').next());
    pid.and_then(|it| it.parse().ok()).expect("a process id")
}

/// Whatever restarts are asked for: a hand-over is not an end.
#[tokio::test(flavor = "multi_thread")]
async fn the_successor_is_the_command() {
    for restart in ["never", "always"] {
        let options = ["--restart", restart, "--health", "127.0.0.1:0"];
        let command = [
            built("example-web"),
            "--listen".to_owned(),
            "127.0.0.1:0".to_owned(),
        ];
        let mut wrapper = Wrapper::start(&options, &command);
        let address = wrapper.line("listening on ").await;
        let admin = wrapper.health().await;
        let load = load(&address, Mode::Mixed).await;
        let mut serving = children(wrapper.subject.pid())[0];
        // Each hears the next signal, so each has become the one that signals are passed on to.
        for _ in 0..iterations(2, 50) {
            wrapper.signal(Signal::USR2);
            let next = taken_over(&mut wrapper).await;
            assert_ne!(next, serving);
            let old = format!("pid {serving} ended with exit code 0");
            wrapper.says(&old).await;
            assert_eq!(health(admin, "/readyz").0, 0, "ready all the while");
            serving = next;
        }
        nothing_failed(load).await;
        assert_eq!(children(wrapper.subject.pid()), [serving]);
        wrapper.signal(Signal::TERM);
        let (code, said) = wrapper.code().await;
        assert_eq!((code, state(serving)), (0, None), "{said}");
        assert!(
            said.contains(&format!("(pid {serving}) ended with exit code 0")),
            "{said}"
        );
    }
}

/// Names a process as the one to look at, waits for that to be heard, and ends.
const NAMES: &str = r#"
import os, signal, socket, subprocess, sys
child = subprocess.Popen(["sh", "-c", "trap 'exit 6' USR1; echo up; while :; do sleep 0.01; done"])
name = os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1)
pid = child.pid if sys.argv[1] == "child" else int(sys.argv[1])
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"MAINPID=%d" % pid, name)
sys.exit(0) if sys.argv[2] == "ends" else signal.pause()
"#;

fn names(who: &str, then: &str) -> Wrapper {
    Wrapper::start(&[], &["/usr/bin/python3", "-c", NAMES, who, then])
}

/// What was said before an end counts at that end, also if both are seen at once.
#[tokio::test]
async fn the_end_of_the_successor_is_the_end() {
    let mut wrapper = names("child", "ends");
    wrapper.line("up").await;
    taken_over(&mut wrapper).await;
    wrapper.signal(Signal::USR1);
    assert_eq!(wrapper.code().await.0, 6);
}

/// Its parent lives on, and would be the one to reap it.
#[tokio::test]
async fn the_end_of_a_successor_is_seen_also_by_others_than_its_parent() {
    let mut wrapper = names("child", "stays");
    wrapper.line("up").await;
    let pid = taken_over(&mut wrapper).await;
    kill(pid, Signal::USR1);
    wrapper
        .says(&format!("(pid {pid}) ended with exit code 6"))
        .await;
    assert_eq!(wrapper.code().await.0, 6);
}

#[tokio::test]
async fn a_process_that_is_not_below_us_is_never_the_command() {
    let mut wrapper = names("1", "stays");
    wrapper.line("up").await;
    wrapper.says("MAINPID=1 is not a descendant").await;
    let command = children(wrapper.subject.pid())[0];
    wrapper.signal(Signal::TERM);
    wrapper
        .says(&format!("(pid {command}) was ended by SIGTERM"))
        .await;
    wrapper.end().await;
}
