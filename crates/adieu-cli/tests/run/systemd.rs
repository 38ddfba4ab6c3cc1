//! Under a manager that speaks systemd's protocol: sockets come in by name, and it hears how we are.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::restart::SERVER;
use crate::support::{ADIEU, PATIENCE, children, until};

/// `adieu run` as systemd starts it: a socket as descriptor 3, variables that name it, a socket to tell.
struct Unit {
    child: Child,
    manager: UnixDatagram,
    _folder: TempDir,
}

impl Unit {
    fn start(listener: &TcpListener, variables: &str, server: &str) -> Self {
        Self::start_with("", listener, variables, server)
    }

    fn start_with(options: &str, listener: &TcpListener, variables: &str, server: &str) -> Self {
        let folder = TempDir::new().expect("a directory");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // The process id is known only to the process itself. Descriptor 0 is how the socket gets there.
        let script = format!(
            "exec 3<&0 0</dev/null; export LISTEN_PID=$$ {variables}; \
             exec \"$0\" run --quiet {options} -- /usr/bin/python3 -c \"$1\""
        );
        let copy = listener.try_clone().expect("a copy");
        let child = Command::new("sh")
            .args(["-c", &script, ADIEU, server])
            .env("NOTIFY_SOCKET", &path)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(copy)))
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        Self {
            child,
            manager,
            _folder: folder,
        }
    }

    fn hear(&self) -> String {
        let mut bytes = [0; 4_096];
        let count = self.manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn ask(listener: &TcpListener) {
    let address = listener.local_addr().expect("an address");
    let mut stream = TcpStream::connect(address).expect("the queue takes it");
    let _ = stream.set_read_timeout(Some(PATIENCE));
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.ends_with("ok\n"), "{text}");
}

#[test]
fn a_socket_is_handed_on_by_its_name_and_outlives_every_generation() {
    let listener = listener();
    let server = format!("import os\nassert os.environ['LISTEN_FDNAMES'] == 'shop'\n{SERVER}");
    let variables = "LISTEN_FDS=1 LISTEN_FDNAMES=shop";
    let unit = Unit::start(&listener, variables, &server);
    assert_eq!(unit.hear(), "READY=1");
    ask(&listener);
    unit.signal(Signal::HUP);
    let reloading = unit.hear();
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(
        time.is_some_and(|it| it.parse::<u64>().is_ok_and(|it| it > 0)),
        "{reloading}"
    );
    assert_eq!(unit.hear(), "READY=1");
    ask(&listener);
    unit.signal(Signal::TERM);
    let stopping = unit.hear();
    assert!(
        stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC="),
        "{stopping}"
    );
    assert_eq!(unit.end(), Some(0));
    // It is systemd's, and the next one takes up what waits in it.
    let unit = Unit::start(&listener, variables, &server);
    ask(&listener);
    unit.signal(Signal::TERM);
    assert_eq!(unit.end(), Some(0));
}

/// After a new version that failed, the manager gets the state of the old one again.
#[test]
fn a_broken_next_version_leaves_the_unit_ready() {
    let listener = listener();
    let folder = TempDir::new().expect("a directory");
    let flag = folder.path().join("broken");
    let server = format!(
        "import os\nif os.path.exists({:?}): raise SystemExit(3)\n{SERVER}",
        flag.display().to_string()
    );
    let unit = Unit::start(&listener, "LISTEN_FDS=1", &server);
    assert_eq!(unit.hear(), "READY=1");
    std::fs::write(&flag, "").expect("a file");
    unit.signal(Signal::HUP);
    assert!(unit.hear().starts_with("RELOADING=1\n"));
    assert_eq!(unit.hear(), "READY=1");
    ask(&listener);
    unit.signal(Signal::TERM);
    assert!(unit.hear().starts_with("STOPPING=1\n"));
    assert_eq!(unit.end(), Some(0));
}

/// What systemd watches is us; the variables are not the command's, who would not know of them.
#[test]
fn the_watchdog_of_the_unit_hears_of_us() {
    let listener = listener();
    let server = format!("import os\nassert 'WATCHDOG_USEC' not in os.environ\n{SERVER}");
    let variables = "LISTEN_FDS=1 WATCHDOG_USEC=100000 WATCHDOG_PID=$$";
    let unit = Unit::start(&listener, variables, &server);
    let mut heard = [unit.hear(), unit.hear(), unit.hear()];
    heard.sort();
    assert_eq!(heard[2], "WATCHDOG=1");
    assert_eq!(heard[1], "WATCHDOG=1");
    unit.signal(Signal::TERM);
    while !unit.hear().starts_with("STOPPING=1\n") {}
    assert_eq!(unit.end(), Some(0));
}

/// Says something to a generation of this process, as a process that is neither of its user nor below it.
fn say_as_a_stranger(pid: u32, text: &str) {
    let [command] = crate::support::children(pid.cast_signed())[..] else {
        panic!("there is one command");
    };
    let environment = std::fs::read(format!("/proc/{command}/environ")).expect("it lives");
    let environment = String::from_utf8_lossy(&environment);
    let mut variables = environment.split('\0');
    let name = variables.find_map(|it| it.strip_prefix("NOTIFY_SOCKET=@"));
    let name = name.expect("a socket");
    let script = format!(
        "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto({text:?}.encode(), '\\0{name}')"
    );
    let status = Command::new("setpriv")
        .args([
            "--reuid",
            "64321",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            &script,
        ])
        .status()
        .expect("setpriv is in util-linux");
    assert!(status.success(), "{status}");
}

/// What the command says of itself to people is said on, and what strangers say is not heard.
#[test]
fn a_status_is_passed_on() {
    let listener = listener();
    let server = format!(
        "import os, signal, socket\n\
         def say(*_):\n    \
             name = os.environ['NOTIFY_SOCKET'].replace('@', '\\0', 1)\n    \
             socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'STATUS=42 orders', name)\n\
         signal.signal(signal.SIGUSR1, say)\n{SERVER}"
    );
    let unit = Unit::start(&listener, "LISTEN_FDS=1", &server);
    assert_eq!(unit.hear(), "READY=1");
    if rustix::process::geteuid().is_root() {
        say_as_a_stranger(unit.child.id(), "STATUS=hello");
    } else {
        fixture_skip::not_possible("only root can be another user");
    }
    unit.signal(Signal::USR1);
    assert_eq!(unit.hear(), "STATUS=42 orders");
    unit.signal(Signal::TERM);
    assert!(unit.hear().starts_with("STOPPING=1\n"));
    assert_eq!(unit.end(), Some(0));
}

/// The manager counts from the moment it asked, not from the end of our pre-stop.
#[test]
fn the_stop_is_told_before_the_pre_stop() {
    let listener = listener();
    let options = "--pre-stop 10m --grace 20m";
    let unit = Unit::start_with(options, &listener, "LISTEN_FDS=1", SERVER);
    assert_eq!(unit.hear(), "READY=1");
    unit.signal(Signal::INT);
    let stopping = unit.hear();
    let micros = stopping.strip_prefix("STOPPING=1\nEXTEND_TIMEOUT_USEC=");
    let micros: u64 = micros.and_then(|it| it.parse().ok()).expect("a time");
    assert!(micros > 20 * 60 * 1_000_000, "{stopping}");
    unit.signal(Signal::INT);
    unit.end();
}

/// What is shown is the state of the one that serves.
#[test]
fn the_status_of_one_that_is_leaving_is_not_passed_on() {
    let listener = listener();
    let server = format!(
        "import os, signal, socket\n\
         def say(text):\n    \
             name = os.environ['NOTIFY_SOCKET'].replace('@', '\\0', 1)\n    \
             socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(text, name)\n\
         def leave(*_):\n    \
             say(b'STATUS=leaving')\n    \
             os._exit(0)\n\
         signal.signal(signal.SIGUSR1, lambda *_: say(b'STATUS=42 orders'))\n\
         {}",
        SERVER.replace("(signal.SIGTERM, stop)", "(signal.SIGTERM, leave)")
    );
    let unit = Unit::start(&listener, "LISTEN_FDS=1", &server);
    assert_eq!(unit.hear(), "READY=1");
    let pid = unit.child.id().cast_signed();
    let old = children(pid)[0];
    unit.signal(Signal::HUP);
    assert!(unit.hear().starts_with("RELOADING=1\n"));
    assert_eq!(unit.hear(), "READY=1");
    until("the old one has left", || !children(pid).contains(&old));
    unit.signal(Signal::USR1);
    assert_eq!(unit.hear(), "STATUS=42 orders");
    unit.signal(Signal::TERM);
    unit.end();
}

#[test]
fn sockets_for_another_process_are_not_for_us() {
    let listener = listener();
    let server = "import os\nassert 'LISTEN_FDS' not in os.environ, 'it is there'";
    let unit = Unit::start(&listener, "LISTEN_FDS=1 LISTEN_PID=1", server);
    assert_eq!(unit.end(), Some(0));
}

/// systemd hands over FIFOs, too, and one is not to be missing among those that are counted.
#[test]
fn what_is_no_socket_is_handed_on() {
    let folder = TempDir::new().unwrap();
    let script = r#"
        mkfifo "$1/fifo" && exec 3<> "$1/fifo"
        export LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=orders
        exec "$0" run --ready start -- sh -c '
            echo for me >&3; read word <&3
            echo $LISTEN_FDS $LISTEN_FDNAMES $word; [ $LISTEN_PID = $$ ]'"#;
    let output = Command::new("sh")
        .args(["-c", script, ADIEU])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(out, "1 orders for me\n", "{said}");
}

/// No other process in the network namespace can know the name beforehand, and take it.
#[test]
fn the_notify_socket_has_a_name_of_its_own() {
    let name = || {
        let (code, name, said) =
            crate::support::run(&[], &["sh", "-c", "echo $PPID $NOTIFY_SOCKET"]);
        assert_eq!(code, 0, "{said}");
        let (wrapper, name) = name.trim_end().split_once(' ').expect("a name");
        assert!(!name.contains(&format!("-{wrapper}-")), "{name}");
        name.rsplit('-').next().expect("an end").to_owned()
    };
    let (one, other) = (name(), name());
    assert_eq!((one.len(), other.len()), (32, 32), "{one} {other}");
    assert_ne!(one, other);
}
