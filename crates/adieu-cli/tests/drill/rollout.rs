//! Roll-outs of a server that any command replaces, under traffic.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use adieu_testkit::ReservedPort;
use serde_json::Value;

use crate::support::{Ran, Test};

/// Replaces the server by another one, with a moment between them.
const REPLACE: &str = include_str!("replace.py");

/// Answers on descriptor 3 and ends when what it has accepted is answered.
const HANDED: &str = r#"
import os, select, signal, socket
# The command of the roll-out waits at the pipe for the next one; nothing reads when the first begins.
try:
    os.write(os.open("born", os.O_WRONLY | os.O_NONBLOCK), b"serving\n")
except OSError:
    pass
asked, asking = socket.socketpair()
signal.signal(signal.SIGTERM, lambda *_: asking.send(b"x"))
listener = socket.socket(fileno=3)
listener.setblocking(False)
while asked not in (ready := select.select([listener, asked], [], [])[0]):
    try:
        peer, _ = listener.accept()
    except BlockingIOError:
        continue
    with peer:
        peer.setblocking(True)
        if peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

/// A server that is there before the drill, and the one that takes its place.
struct Deployment {
    test: Test,
    old: Child,
    port: ReservedPort,
}

impl Deployment {
    /// Starts a command, and waits for its first line with these words on this stream.
    fn start(test: Test, command: &mut Command, port: ReservedPort, words: &str) -> Self {
        let mut old = command
            .current_dir(test.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let out = BufReader::new(old.stdout.take().expect("a pipe")).lines();
        let error = BufReader::new(old.stderr.take().expect("a pipe")).lines();
        let lines: &mut dyn Iterator<Item = _> = match words {
            "listening" => &mut { out },
            _ => &mut { error },
        };
        let mut lines = lines.map_while(Result::ok);
        let line = lines.find(|line| line.contains(words));
        assert!(line.is_some(), "the server never said `{words}`");
        Self { test, old, port }
    }

    fn hello() -> Self {
        let test = Test::new().file("replace.py", REPLACE);
        let port = reserve();
        let mut command = Command::new("python3");
        command.args(["hello.py", &port.number().to_string()]);
        Self::start(test, &mut command, port, "listening")
    }

    fn url(&self) -> String {
        format!("http://{}/", self.port.address())
    }

    fn drill(&self, rollout: &str, words: &[&str]) -> Ran {
        let url = self.url();
        let base = ["--rollout", rollout, "--url", &url];
        self.test.run(&[&base[..], words].concat())
    }

    fn replace(&self) -> String {
        format!(
            "python3 replace.py {} {}",
            self.old.id(),
            self.port.number()
        )
    }

    /// The process that took the place of the first, if it lives.
    fn successor(&self) -> Option<String> {
        let pid = fs::read_to_string(self.test.path().join("new.pid")).ok()?;
        let lives = fs::exists(format!("/proc/{pid}")).ok()?;
        lives.then_some(pid)
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if let Some(pid) = self.successor() {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
        let _ = self.old.kill();
        let _ = self.old.wait();
    }
}

/// Nothing listens there, and no other test will.
fn reserve() -> ReservedPort {
    ReservedPort::reserve().expect("a port")
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out())
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out(), ran.err()))
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {report:#}"))
}

#[test]
fn a_moment_without_a_server_is_refused_and_told_with_what_the_command_said() {
    let deployment = Deployment::hello();
    let ran = deployment.drill(
        &deployment.replace(),
        &[
            "--rate", "200", "--json", "--junit", "r.xml", "--html", "r.html",
        ],
    );
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    let report = json(&ran);
    let refused = check(&report, "rollout-refused");
    assert_eq!(refused["outcome"], "failed");
    let evidence = refused["evidence"].to_string();
    for words in ["refused", "after the command printed", "x-request-id"] {
        assert!(evidence.contains(words), "{evidence}");
    }
    let run = &report["rollout"]["runs"][0];
    assert_eq!(run["before"]["refused"], 0, "{run:#}");
    assert_eq!(run["after"]["refused"], 0, "{run:#}");
    assert!(run["during"]["refused"].as_u64() > Some(0), "{run:#}");
    assert!(
        run["largest_gap"]["took_ms"].as_f64() > Some(5.0),
        "{run:#}"
    );
    assert!(run["steady_ms"].is_number(), "{run:#}");
    // What the command has started is the deployment, and serves on.
    assert!(deployment.successor().is_some(), "the new server is gone");
    let page = fs::read_to_string(deployment.test.path().join("r.html")).expect("a page");
    assert!(page.contains("Before, during and after the roll-out"));
    let suite = fs::read_to_string(deployment.test.path().join("r.xml")).expect("a suite");
    assert!(suite.contains("classname=\"drill.rollout\""), "{suite}");
}

/// A holder of the socket replaces the server behind it, and no client sees it. The same drill passes.
#[test]
#[cfg(target_os = "linux")]
fn a_restart_behind_a_held_socket_loses_and_refuses_nothing() {
    let test = Test::new().file("handed.py", HANDED);
    let made = Command::new("mkfifo")
        .arg(test.path().join("born"))
        .status();
    assert!(made.expect("mkfifo").success());
    let port = reserve();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adieu"));
    let listen = format!("tcp:{}", port.address());
    command.args(["run", "--listen", &listen, "--", "python3", "handed.py"]);
    let deployment = Deployment::start(test, &mut command, port, "ready");
    let restart = format!(
        "exec 3<>born; kill -HUP {}; read -r line <&3; echo $line",
        deployment.old.id()
    );
    for pace in [&["--rate", "200"][..], &["--clients", "4"]] {
        let ran = deployment.drill(&restart, &[pace, &["--json"]].concat());
        let report = json(&ran);
        for id in ["rollout-lost", "rollout-refused", "rollout-errors"] {
            assert_eq!(check(&report, id)["outcome"], "passed", "{report:#}");
        }
        assert!(report["rollout"]["runs"][0]["during"]["answered"].as_u64() > Some(0));
    }
}

#[test]
fn a_roll_out_that_is_repeated_has_an_interval() {
    let deployment = Deployment::hello();
    let ran = deployment.drill("true", &["--repeat", "3", "--rate", "500", "--json"]);
    let report = json(&ran);
    let runs = report["rollout"]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3, "{report:#}");
    assert_eq!(report["rollout"]["lost"]["high"], 0.0, "{report:#}");
    let said = check(&report, "rollout-lost")["reason"].to_string();
    assert!(
        said.contains("with 95 % probability") || said.contains("raise --rate"),
        "{said}"
    );
}

#[test]
fn an_address_that_does_not_answer_is_said_before_the_command_runs() {
    let test = Test::new();
    let nothing = reserve();
    let url = format!("http://{}/", nothing.address());
    let ran = test.run(&["--rollout", "touch ran", "--url", &url]);
    ran.refuses(
        4,
        &[
            "does not answer before the roll-out",
            "refused",
            "starts nothing",
        ],
    );
    assert!(!test.path().join("ran").exists(), "the command has run");
}

#[test]
fn a_command_that_fails_is_told_with_its_output() {
    let deployment = Deployment::hello();
    let ran = deployment.drill("echo no such service >&2; exit 3", &[]);
    let said = [
        "failed after",
        "exit code 3",
        "no such service",
        "requests were answered",
    ];
    ran.refuses(4, &said);
}

#[test]
fn a_command_that_does_not_end_is_ended_with_its_descendants() {
    let deployment = Deployment::hello();
    let ran = deployment.drill("echo waiting; sleep 1000 & wait", &["--within", "1s"]);
    ran.refuses(4, &["did not end within 1.00 s", "waiting", "--within"]);
}

#[test]
fn what_makes_no_sense_is_said_before_anything_runs() {
    let test = Test::new();
    let url = "http://127.0.0.1:1/";
    let words = ["--rollout", "touch ran", "--url"];
    for (more, said) in [
        (&[url, "--rate", "0"][..], "--rate: more than 0"),
        (&[url, "--rate", "1e9"], "at most 20000 requests a second"),
        (&[url, "--clients", "0"], "--clients: at least 1"),
        (&["127.0.0.1:80"], "--url: `127.0.0.1:80` is not a URL"),
        (&[url, "--steady", "0s"], "longer than nothing"),
        (
            &[url, "--threshold", "exit-code=0"],
            "rollout-lost, rollout-refused",
        ),
        (
            &[url, "--threshold", "rollout-gap=soon"],
            "is not a duration",
        ),
        (&[url, "--slow", "/slow"], "cannot be used with"),
        (&[url, "--", "server"], "cannot be used with"),
        (
            &[url, "--rate", "1", "--clients", "2"],
            "cannot be used with",
        ),
    ] {
        let ran = test.run(&[&words[..], more].concat());
        ran.refuses(2, &[said]);
    }
    let ran = test.run(&["--rollout", "touch ran"]);
    ran.refuses(2, &["--url"]);
    assert!(!test.path().join("ran").exists(), "a command has run");
}

/// Interrupted, the drill ends the command and what it runs.
#[test]
fn an_interrupt_ends_the_command() {
    let deployment = Deployment::hello();
    let held = deployment.test.path().join("held");
    let made = Command::new("mkfifo").arg(&held).status();
    assert!(made.expect("mkfifo").success());
    let mut drill = deployment
        .test
        .command(&[
            "--rollout",
            "exec 3> held; echo running >&3; sleep 1000 & wait",
            "--url",
            &deployment.url(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let mut held = BufReader::new(fs::File::open(held).expect("a pipe"));
    let mut line = String::new();
    held.read_line(&mut line).expect("a line");
    assert_eq!(line, "running\n");
    let killed = Command::new("kill")
        .args(["-INT", &drill.id().to_string()])
        .status();
    assert!(killed.expect("kill").success());
    assert_eq!(drill.wait().expect("it ends").code(), Some(130));
    // The pipe ends with the last process that has it open.
    assert_eq!(held.read_line(&mut line).expect("an end"), 0);
}
