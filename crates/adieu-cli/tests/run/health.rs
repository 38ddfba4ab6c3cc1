//! `--health`, the probes, READY=1 and the watchdog.

use std::net::SocketAddr;
use std::process::Command;

use adieu_testkit::ReservedPort;
use rustix::process::Signal;

use crate::support::{ADIEU, Wrapper, kill, until};

fn free() -> ReservedPort {
    ReservedPort::reserve().expect("a port")
}

pub(crate) fn health(address: SocketAddr, path: &str) -> (i32, String) {
    let output = Command::new(ADIEU)
        .args(["health", &format!("http://{address}{path}")])
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().expect("a code"),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

const SAY: &str = "import os, socket, sys, time, signal\n\
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n\
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
name = os.environ['NOTIFY_SOCKET'].replace('@', '\\0', 1)\n\
def say(text):\n\
\x20   s.sendto(text.encode(), name)\n";

#[tokio::test]
async fn ready_when_it_says_so() {
    let wait = "told = []\nsignal.signal(signal.SIGUSR1, lambda *_: told.append(1))\nprint('up', flush=True)\n\
                while not told: time.sleep(0.01)\n";
    let script = format!(
        "{SAY}\n{wait}say('READY=1\\nSTATUS=fine')\nprint('said', flush=True)\nsignal.pause()"
    );
    let options = ["--health", "127.0.0.1:0", "--ready", "notify"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &script]);
    wrapper.line("up").await;
    let address = wrapper.health().await;
    assert_eq!(health(address, "/livez").0, 0);
    let (code, said) = health(address, "/readyz");
    assert_eq!(code, 1);
    assert!(said.contains("python3"), "{said}");
    wrapper.signal(Signal::USR1);
    wrapper.line("said").await;
    wrapper.says("python3 ready after ").await;
    assert_eq!(health(address, "/readyz").0, 0);
    assert_eq!(health(address, "/health").0, 0);
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn probes_feed_readiness() {
    let folder = tempfile::TempDir::new().unwrap();
    let served = free();
    let flag = folder.path().join("flag");
    let probe = format!("test -e {}", flag.display());
    let port = served.number().to_string();
    let tcp = served.address().to_string();
    let url = format!("http://{tcp}/");
    let options = [
        "--health",
        "127.0.0.1:0",
        "--probe-http",
        &url,
        "--probe-tcp",
        &tcp,
        "--probe-command",
        &probe,
        "--ready",
        "start",
    ];
    let command = [
        "/usr/bin/python3",
        "-m",
        "http.server",
        &port,
        "--bind",
        "127.0.0.1",
    ];
    let mut wrapper = Wrapper::start(&options, &command);
    let address = wrapper.health().await;
    let (code, said) = health(address, "/readyz");
    assert_eq!(code, 1, "{said}");
    std::fs::write(&flag, "").unwrap();
    // An answer is good for a second: the client has to ask again.
    until("ready", || health(address, "/readyz").0 == 0);
    std::fs::remove_file(&flag).unwrap();
    until("not ready", || health(address, "/readyz").0 == 1);
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// Readiness goes first, the command gets its signal later.
#[tokio::test]
async fn readiness_is_off_during_the_pre_stop() {
    let options = [
        "--health",
        "127.0.0.1:0",
        "--pre-stop",
        "20s",
        "--grace",
        "40s",
    ];
    let mut wrapper = Wrapper::start(
        &options,
        &[
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done",
        ],
    );
    wrapper.line("up").await;
    let address = wrapper.health().await;
    until("it is ready", || health(address, "/readyz").0 == 0);
    wrapper.signal(Signal::TERM);
    wrapper.says("readiness off").await;
    assert_eq!(health(address, "/readyz").0, 1);
    assert_eq!(health(address, "/livez").0, 0, "alive, and the command too");
    assert_eq!(crate::support::children(wrapper.subject.pid()).len(), 1);
    wrapper.signal(Signal::INT);
    wrapper.end().await;
}

/// That words keep it alive is shown beside the code, with a clock that can be turned.
#[tokio::test]
async fn silence_is_death() {
    let talks = format!(
        "{SAY}\nprint(os.environ['WATCHDOG_USEC'], os.environ['WATCHDOG_PID'] == str(os.getpid()), flush=True)\n\
         say('WATCHDOG=1')\nsignal.pause()"
    );
    // Longer than an interpreter takes to start on a busy machine.
    let mut wrapper = Wrapper::start(&["--watchdog", "5s"], &["/usr/bin/python3", "-c", &talks]);
    assert_eq!(wrapper.line("5000000 ").await, "True");
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 128 + 6, "{said}");
    assert!(
        said.contains("has sent no WATCHDOG=1 for 5s: SIGABRT"),
        "{said}"
    );
}

/// A command that does not die of SIGABRT either is killed.
#[test]
fn a_command_that_ignores_the_abort_is_killed() {
    // The time counts from readiness, so that it does not hear before it is deaf.
    let options = ["--ready", "notify", "--watchdog", "100ms"];
    let deaf = format!(
        "{SAY}signal.signal(signal.SIGABRT, signal.SIG_IGN)\nsay('READY=1')\nwhile True: signal.pause()"
    );
    let (code, _, said) = crate::support::run(&options, &["/usr/bin/python3", "-c", &deaf]);
    assert_eq!(code, 137, "{said}");
    let aborts = said.matches("has sent no WATCHDOG=1").count();
    assert_eq!(aborts, 1, "{said}");
}

/// Every generation is listened to: one that has replaced another, and one that takes over because that has ended.
#[tokio::test]
async fn the_next_generation_is_watched_too() {
    // The second one gets ready, and the first is asked to end; or the first one dies, and it gets ready after that.
    for (gets_ready, and_then, after) in [
        ("True", None, "is asked to end"),
        ("False", Some(Signal::KILL), "takes over before it is ready"),
    ] {
        let script = format!(
            "{SAY}\nfirst = os.environ['SERVER_STARTER_GENERATION'] == '1'\n\
             if first:\n    \
                 signal.signal(signal.SIGALRM, lambda *_: say('WATCHDOG=1'))\n    \
                 signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)\n\
             signal.signal(signal.SIGUSR1, lambda *_: say('READY=1'))\n\
             if first or {gets_ready}: say('READY=1')\n\
             heard, ring = os.pipe()\nos.set_blocking(ring, False)\nsignal.set_wakeup_fd(ring)\n\
             print('up', os.getpid(), flush=True)\n\
             while True: os.read(heard, 1)"
        );
        let options = [
            "--watchdog",
            "3s",
            "--ready",
            "notify",
            "--listen",
            "tcp:127.0.0.1:0",
        ];
        let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &script]);
        let first: i32 = wrapper.line("up ").await.parse().unwrap();
        wrapper.says("ready after ").await;
        wrapper.signal(Signal::HUP);
        wrapper.line("up ").await;
        if let Some(signal) = and_then {
            kill(first, signal);
        }
        wrapper.says(after).await;
        if and_then.is_some() {
            wrapper.signal(Signal::USR1);
        }
        let (code, said) = wrapper.code().await;
        assert_eq!(code, 128 + 6, "{said}");
        assert!(
            said.contains("has sent no WATCHDOG=1 for 3s: SIGABRT"),
            "{said}"
        );
    }
}

/// A probe that hangs counts as a bad answer and is killed with all it started.
#[tokio::test]
async fn a_probe_that_hangs_is_killed() {
    let folder = tempfile::TempDir::new().unwrap();
    let noted = folder.path().join("probe");
    let probe = format!("sleep 1000 & echo $! >> {}; wait", noted.display());
    let options = [
        "--health",
        "127.0.0.1:0",
        "--ready",
        "start",
        "--probe-command",
        &probe,
        "--probe-timeout",
        "200ms",
    ];
    let mut wrapper = Wrapper::start(&options, &["sleep", "1000"]);
    let address = wrapper.health().await;
    // It may be killed before it has noted anything.
    until("a probe has noted whom it started", || {
        assert_eq!(health(address, "/readyz").0, 1);
        noted.exists()
    });
    until("all they started is gone", || {
        let noted = std::fs::read_to_string(&noted).unwrap();
        let mut pids = noted.lines().map(|it| it.parse().unwrap());
        pids.all(|pid| crate::support::state(pid).is_none())
    });
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

#[test]
fn a_probe_without_a_listener_fails() {
    let unused = free();
    assert_eq!(health(unused.address(), "/livez").0, 1);
}

/// A start may take longer than the watchdog bears: it counts from readiness, as systemd's does.
#[test]
fn the_watchdog_counts_from_readiness() {
    let options = ["--ready", "notify", "--watchdog", "1s"];
    let slow = format!("{SAY}time.sleep(1.5)\nsay('READY=1')\n");
    // At once: the end of an interpreter may take long on a busy machine.
    let ends = format!("{slow}os._exit(0)");
    let (code, _, said) = crate::support::run(&options, &["/usr/bin/python3", "-c", &ends]);
    assert_eq!(code, 0, "{said}");
    // From there on it is heard or missed.
    let (code, _, said) = crate::support::run(
        &options,
        &["/usr/bin/python3", "-c", &format!("{slow}signal.pause()")],
    );
    assert_eq!(code, 128 + 6, "{said}");
    let (ready, silent) = (
        said.find(" ready after "),
        said.find("has sent no WATCHDOG=1"),
    );
    assert!(ready.is_some() && ready < silent, "{said}");
}

/// A wrapper is small, also after it was asked: what the answer needed of the program is let go of.
#[tokio::test]
async fn an_answer_does_not_make_it_larger() {
    let options = ["--health", "127.0.0.1:0", "--probe-command", "true"];
    let mut wrapper = Wrapper::start(&options, &["sleep", "1000"]);
    wrapper.ready().await;
    let status = format!("/proc/{}/status", wrapper.subject.pid());
    let kilobytes = |field: &str| -> u32 {
        let status = std::fs::read_to_string(&status).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let count = line.and_then(|it| it.split_ascii_whitespace().next());
        count.and_then(|it| it.parse().ok()).expect("a count")
    };
    // A fifth of its peak in a build without optimisation; all of it, if the code is kept.
    until("it is small", || {
        kilobytes("VmRSS:") * 3 < kilobytes("VmHWM:")
    });
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// What a probe asks may hold a password, and any client may ask for health.
#[tokio::test]
async fn a_probe_is_named_by_its_kind() {
    let unused = free();
    let tcp = unused.address().to_string();
    let url = format!("http://{tcp}/?token=hunter2");
    let command = "test hunter2 = hunter3";
    let options = [
        "--health",
        "127.0.0.1:0",
        "--ready",
        "start",
        "--probe-http",
        &url,
        "--probe-tcp",
        &tcp,
        "--probe-command",
        command,
    ];
    let mut wrapper = Wrapper::start(&options, &["sleep", "1000"]);
    let address = wrapper.health().await;
    let page = |path: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    for path in ["/readyz", "/health", "/metrics", "/plan", "/report"] {
        let answer = page(path);
        assert!(!answer.contains("hunter"), "{path}: {answer}");
    }
    for name in ["probe http", "probe tcp", "probe command"] {
        let answer = page("/health");
        assert!(answer.contains(name), "{name}: {answer}");
    }
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// The kubelet asks from outside of the pod; elsewhere a port alone is for this machine alone.
#[test]
fn a_port_alone_is_within_reach_of_who_asks() {
    for (host, shown) in [
        ("", "health on http://127.0.0.1:"),
        ("10.96.0.1", "health on http://0.0.0.0:"),
    ] {
        let surroundings = [("KUBERNETES_SERVICE_HOST", host)];
        let options = ["--health", "0"];
        let (code, _, said) = crate::support::run_in(&surroundings, &options, &["true"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(shown), "`{host}`: {said}");
    }
}
