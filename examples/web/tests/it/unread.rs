//! Its output may have no reader.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use adieu_testkit::ReservedPort;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

/// Only a broken promise takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns once it accepts.
fn serving(mut command: Command, address: SocketAddr) -> Child {
    let mut web = command.spawn().expect("example-web starts");
    while TcpStream::connect(address).is_err() {
        let ended = web.try_wait().expect("it can be asked");
        assert_eq!(ended, None, "it ended");
        std::thread::yield_now();
    }
    web
}

fn stops_well(mut web: Child) {
    kill_process(Pid::from_child(&web), Signal::TERM).expect("it runs");
    let end = web.wait().expect("it ends");
    assert_eq!(end.code(), Some(0));
}

/// A full disk below what it prints.
#[test]
fn a_full_disk_does_not_hold_the_stop() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return fixture_skip::not_possible("there is no /dev/full");
    };
    let port = ReservedPort::reserve().expect("a port");
    let address = port.address();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-web"));
    command.args(["--listen", &address.to_string(), "--admin", "127.0.0.1:0"]);
    command.stdout(full);
    stops_well(serving(command, address));
}

/// A pipe in which there is no room for another byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("a flag of our own pipe");
    let full = loop {
        if let Err(error) = writer.write(&[b' '; 4_096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    fcntl_setfl(&writer, OFlags::empty()).expect("a flag of our own pipe");
    (reader, writer)
}

/// It has something to say of the shortage, and goes on with its work, read or not.
#[test]
fn a_log_that_takes_no_line_does_not_hold_the_stop() {
    let (reader, writer) = full_pipe();
    let port = ReservedPort::reserve().expect("a port");
    let address = port.address();
    let mut command = Command::new("sh");
    let script = format!(
        "ulimit -n 40; exec {} --listen {address}",
        env!("CARGO_BIN_EXE_example-web")
    );
    command.args(["-c", &script]).stderr(writer);
    command.stdout(Stdio::null());
    let web = serving(command, address);
    let mut crowd: Vec<_> = (0..80)
        .map(|_| {
            let mut client = TcpStream::connect(address).expect("there is room in the queue");
            client.set_read_timeout(Some(PATIENCE)).expect("a limit");
            let request =
                b"GET /slow?ms=300 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            client.write_all(request).expect("it is sent");
            client
        })
        .collect();
    for client in &mut crowd {
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    }
    // Now the log is gone, and with it what waits to be written.
    drop(reader);
    stops_well(web);
}
