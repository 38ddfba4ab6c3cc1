//! Notifications to systemd in a hand-off, and in a reload.

use std::fs;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::lineage::{Lineage, PATIENCE};

fn hear(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4_096];
    let count = socket.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// The socket that systemd would listen on, and its address.
fn manager(directory: &TempDir) -> (UnixDatagram, String) {
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    (socket, path.display().to_string())
}

fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// `Type=notify-reload` takes a message for the answer to its SIGHUP only if the time in it is not before that.
#[test]
fn a_reload_begins_and_ends() {
    let directory = TempDir::new().expect("a directory");
    let (socket, address) = manager(&directory);
    let motd = directory.path().join("motd");
    fs::write(&motd, "hello").expect("a file");
    let options = ["--motd", motd.to_str().expect("a path")];
    let variables = [("NOTIFY_SOCKET", address.as_str())];
    let mut web = Lineage::start_with("127.0.0.1:0", &options, &variables);
    assert_eq!(hear(&socket), "READY=1\nSTATUS=running\n");
    for (text, outcome) in [
        ("good day", "READY=1\nSTATUS=running, reloaded\n"),
        ("", "READY=1\nSTATUS=running; motd refused the reload\n"),
    ] {
        fs::write(&motd, text).expect("a file");
        let before = monotonic_micros();
        web.signal(web.pid(), Signal::HUP);
        let reloading = hear(&socket);
        let at = reloading
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .and_then(|rest| rest.split('\n').next()?.parse().ok());
        let at: i64 = at.unwrap_or_else(|| panic!("{reloading}"));
        assert!((before..=monotonic_micros()).contains(&at), "{reloading}");
        assert_eq!(hear(&socket), outcome);
    }
    assert_eq!(web.stop(), Some(0));
}

#[test]
fn the_new_process_becomes_the_main_one() {
    let directory = TempDir::new().expect("a directory");
    let (socket, address) = manager(&directory);
    let mut web = Lineage::start_with("127.0.0.1:0", &[], &[("NOTIFY_SOCKET", &address)]);
    assert_eq!(hear(&socket), "READY=1\nSTATUS=running\n");

    web.next_is("exit 7");
    web.hand_over_in_vain();
    let reloading = hear(&socket);
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    let back = hear(&socket);
    assert!(
        back.starts_with("READY=1\nSTATUS=running; the hand-off failed: process "),
        "{back}"
    );

    web.next_is_good();
    web.hand_over();
    assert!(hear(&socket).starts_with("RELOADING=1\n"));
    assert_eq!(
        hear(&socket),
        format!("MAINPID={}\nREADY=1\nSTATUS=running\n", web.pid())
    );
    // The old one has ended by now, without a word: systemd would take it for the service's end.
    if !web.log().contains("took over from process ") {
        web.wait_for("took over from process ");
    }
    assert_eq!(web.stop(), Some(0));
    let stopping = hear(&socket);
    assert!(
        stopping.starts_with("STOPPING=1\nSTATUS=stopping: sigterm\n"),
        "{stopping}"
    );
}
