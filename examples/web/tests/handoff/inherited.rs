//! Listeners from the parent process, by systemd's protocol.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// An `example-web` that is started as systemd does it: descriptor 3, and variables that say so.
struct Activated {
    directory: TempDir,
    command: Command,
}

impl Activated {
    fn new(listener: impl Into<OwnedFd>, listen: &str, variables: &str) -> Self {
        let directory = TempDir::new().expect("a directory");
        let mut command = Command::new("sh");
        // The process id is known only to the process itself. Descriptor 0 is how the socket gets there.
        let script =
            format!("exec 3<&0 0</dev/null; export LISTEN_PID=$$ {variables}; exec \"$0\" \"$@\"");
        command
            .args([
                "-c",
                &script,
                env!("CARGO_BIN_EXE_example-web"),
                "--listen",
                listen,
            ])
            .arg("--report")
            .arg(directory.path().join("report.json"))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::from(listener.into()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { directory, command }
    }

    fn start(mut self) -> Live {
        let child = self.command.spawn().expect("it starts");
        Live {
            child,
            directory: self.directory,
        }
    }
}

struct Live {
    child: Child,
    directory: TempDir,
}

impl Live {
    fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.child.stdout.as_mut().expect("its output");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    fn stop(self) -> (Output, Value) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is there");
        self.finish()
    }

    fn finish(self) -> (Output, Value) {
        let output = self.child.wait_with_output().expect("it ends");
        let report = std::fs::read_to_string(self.directory.path().join("report.json"));
        let report = report.map_or(Value::Null, |text| {
            serde_json::from_str(&text).expect("JSON")
        });
        (output, report)
    }
}

fn ask(mut stream: impl Read + Write) {
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

fn notes(report: &Value) -> String {
    report["parts"][0]["notes"].to_string()
}

#[test]
fn a_listener_by_its_name_is_served_and_left_to_its_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let copy = listener.try_clone().expect("a copy");
    // A connection from before the start waits in the queue.
    let early = TcpStream::connect(address).expect("the queue takes it");
    let mut live = Activated::new(copy, "127.0.0.1:1", "LISTEN_FDS=1 LISTEN_FDNAMES=web").start();
    assert_eq!(live.line(), format!("listening on {address}"));
    ask(early);
    let (output, report) = live.stop();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        notes(&report).contains("listener inherited as descriptor 3"),
        "{report:#}"
    );
    assert!(
        notes(&report).contains("to the parent process"),
        "{report:#}"
    );
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains(&format!("on {address} and not on 127.0.0.1:1 as asked for")),
        "{log}"
    );
    // It was not hidden: the next one is served from the same queue.
    let waiting = TcpStream::connect(address).expect("the queue takes it");
    let copy = listener.try_clone().expect("a copy");
    let mut live = Activated::new(copy, &address.to_string(), "LISTEN_FDS=1");
    // The port for probes comes first in the program, and is not the one that a listener without a name is for.
    live.command.args(["--admin", "127.0.0.1:0"]);
    let mut live = live.start();
    assert!(live.line().starts_with("admin on 127.0.0.1:"));
    ask(waiting);
    assert_eq!(live.stop().0.status.code(), Some(0));
}

#[test]
fn a_unix_listener_keeps_its_file() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("web.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let asked = format!("unix:{}", path.display());
    let early = UnixStream::connect(&path).expect("the queue takes it");
    let live = Activated::new(listener, &asked, "LISTEN_FDS=1 LISTEN_FDNAMES=web.socket").start();
    ask(early);
    let (output, report) = live.stop();
    assert_eq!(output.status.code(), Some(0));
    assert!(notes(&report).contains("descriptor 3"), "{report:#}");
    assert!(path.exists(), "it is not ours");
}

/// The program that systemd has for trying this out, and names that say which socket is which.
#[test]
fn systemd_hands_two_sockets_over_by_their_names() {
    const ACTIVATE: &str = "systemd-socket-activate";
    let directory = TempDir::new().expect("a directory");
    let [admin, web] = ["admin.sock", "web.sock"].map(|name| directory.path().join(name));
    let mut command = Command::new(ACTIVATE);
    command
        .arg("--listen")
        .arg(&admin)
        .arg("--listen")
        .arg(&web)
        .arg("--fdname=admin:web")
        .arg(env!("CARGO_BIN_EXE_example-web"))
        .args(["--listen", "127.0.0.1:1", "--admin", "127.0.0.1:1"])
        .arg("--report")
        .arg(directory.path().join("report.json"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return fixture_skip::missing(ACTIVATE);
        }
        Err(error) => panic!("{ACTIVATE}: {error}"),
    };
    // It says that it listens, and starts the program at the first connection.
    let stderr = child.stderr.take().expect("its log");
    let mut log = BufReader::new(stderr).lines().map_while(Result::ok);
    for _ in 0..2 {
        let line = log.find(|line| line.starts_with("Listening on "));
        line.expect("it listens");
    }
    ask(UnixStream::connect(&web).expect("the queue takes it"));
    let mut question = UnixStream::connect(&admin).expect("the queue takes it");
    question
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    question.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let (output, report) = Live { child, directory }.stop();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        notes(&report).contains("listener inherited as descriptor 4"),
        "{report:#}"
    );
}

#[test]
fn variables_for_another_process_are_not_for_us() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let variables = "LISTEN_FDS=1 LISTEN_FDNAMES=web LISTEN_PID=1";
    let mut live = Activated::new(listener, "127.0.0.1:0", variables).start();
    assert_ne!(live.line(), format!("listening on {address}"));
    assert_eq!(live.stop().0.status.code(), Some(0));
}

#[test]
fn an_inherited_socket_without_a_listener_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut live = Activated::new(
        listener,
        "127.0.0.1:0",
        "LISTEN_FDS=1 LISTEN_FDNAMES=metrics",
    )
    .start();
    live.line();
    let (output, report) = live.stop();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        report["timeline"].to_string().contains("unclaimed"),
        "{report:#}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("`metrics`"));
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    for (variables, problem) in [
        (
            "LISTEN_FDS=many",
            "LISTEN_FDS: `many` is not a number of descriptors",
        ),
        (
            "LISTEN_FDS=1 LISTEN_FDNAMES=a:b",
            "LISTEN_FDNAMES has 2 names for the 1 descriptors",
        ),
        ("LISTEN_FDS=9", "LISTEN_FDS promises descriptor"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (output, _) = Activated::new(listener, "127.0.0.1:0", variables)
            .start()
            .finish();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains(problem), "{log}");
    }
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (output, _) = Activated::new(datagrams, "127.0.0.1:0", "LISTEN_FDS=1 LISTEN_FDNAMES=web")
        .start()
        .finish();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("ListenStream="), "{log}");
}
