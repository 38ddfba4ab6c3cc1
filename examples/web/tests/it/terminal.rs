//! Ctrl-C in a terminal: its user does not want to wait for clients.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::time::Duration;

use rustix::process::Signal;
use rustix::pty::{self, OpenptFlags};

use crate::client::Over;
use crate::web::Web;

/// Our end of a new terminal, and the end that a program gets.
fn terminal() -> (File, File) {
    let ours = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    pty::grantpt(&ours).expect("a terminal");
    pty::unlockpt(&ours).expect("a terminal");
    let name = pty::ptsname(&ours, Vec::new()).expect("a terminal has a name");
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().expect("a name in ASCII"))
        .expect("the other end opens");
    (File::from(ours), theirs)
}

#[test]
fn control_c_in_a_terminal_ends_without_the_linger() {
    let (_ours, theirs) = terminal();
    let mut live = Web::new().stdin(theirs).start_with(Signal::INT);
    let mut client = live.connect(Over::Http1);
    assert_eq!(client.get("/").status(), 200);
    live.stop();
    client.is_told_to_try_again();
    // Its side is closed too, so that nothing is waited for but the queue of the listener.
    drop(client);
    let ended = live.finish();
    ended.exits(0);
    let drain = ended.report["phases"].as_array().into_iter().flatten();
    let drain = drain
        .filter(|phase| phase["phase"] == "drain")
        .filter_map(|phase| phase["took_ms"].as_f64())
        .sum::<f64>();
    // By the service's own clock. Only emptying the queue takes its time, a third of the linger.
    let (drain, linger) = (
        Duration::from_secs_f64(drain / 1_000.0),
        Duration::from_millis(500),
    );
    let is_short = drain < linger || ended.is_too_late_to_judge(drain, linger);
    assert!(is_short, "{drain:?}: {ended:?}");
}

/// Without a terminal SIGINT is a stop like any other.
#[test]
fn an_interrupt_from_elsewhere_lingers() {
    let mut live = Web::new().start_with(Signal::INT);
    let mut client = live.connect(Over::Http1);
    assert_eq!(client.get("/").status(), 200);
    live.stop();
    let mut bytes = [0; 1];
    let peeked = client.socket.peek(&mut bytes);
    assert!(peeked.is_ok());
    let mut text = String::new();
    let _ = client.socket.read_to_string(&mut text);
    live.finish().exits(0).not_before_ms(500).within_ms(700);
}
