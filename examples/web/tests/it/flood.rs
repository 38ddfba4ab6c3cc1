//! Clients that hold connections and use them for nothing do not keep others out.

use std::time::Duration;

use crate::client::{Client, Over};
use crate::h2::H2;
use crate::web::Web;

/// Fewer than the clients that come.
const DESCRIPTORS: u32 = 256;
const CLIENTS: usize = 260;

#[test]
fn silent_connections_do_not_lock_others_out() {
    let mut live = Web::new().descriptors(DESCRIPTORS).start();
    let _silent: Vec<Client> = (0..CLIENTS).map(|_| live.connect(Over::Http1)).collect();
    for _ in 0..3 {
        assert_eq!(live.connect(Over::Http1).get("/").status(), 200);
        // An eighth of those that were free at the start is the program's, and a server has a dozen of its own.
        let left = DESCRIPTORS as usize - live.files_open();
        assert!(left >= 20, "{left} descriptors are left to the program");
    }
    live.stop();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["before the stop: closed ", "connection(s) silent"])
        .notes_that(&["short of descriptors 1 time"]);
}

#[test]
fn idle_http2_connections_do_not_lock_others_out() {
    let mut live = Web::new().descriptors(DESCRIPTORS).start();
    let mut idle = Vec::new();
    for _ in 0..CLIENTS {
        let mut h2 = H2::connect(&live, Over::Http2);
        h2.ask(1, "/", true);
        assert_eq!(h2.answer(1), "hello\n");
        idle.push(h2);
    }
    assert_eq!(live.connect(Over::Http1).get("/").status(), 200);
    // The first was idle for the longest, and knows up to where it was served.
    idle[0].rest_of_it();
    assert_eq!(idle[0].goaways, [1]);
    live.stop();
    live.finish().exits(0).loses_nothing();
}

/// Half a head is as good as silence, however many bytes of it come.
#[test]
fn half_heads_do_not_lock_others_out() {
    let mut live = Web::new().descriptors(DESCRIPTORS).start();
    let mut slow: Vec<Client> = (0..CLIENTS).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut slow {
        // Some are closed by now, to make room for others.
        let _ = std::io::Write::write(&mut client.socket, b"GET / HTTP/1.1\r\nx: ");
    }
    let mut client = live.connect(Over::Http1);
    // Long before the time of those heads is over, which is 30 s.
    let early = Some(Duration::from_secs(15));
    client.socket.set_read_timeout(early).expect("a timeout");
    assert_eq!(client.get("/").status(), 200);
    live.stop();
    live.finish().exits(0).loses_nothing();
}

/// 1,024 on most systems, for programs of another kind; the hard one is what the administrator allows.
#[test]
fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let mut live = Web::new().soft_descriptors(DESCRIPTORS, 1_000).start();
    assert_eq!(live.open_files(), 1_000);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| live.connect(Over::Http1)).collect();
    // There is room for all of them.
    for client in &mut clients {
        assert_eq!(client.get("/").status(), 200);
    }
    for client in &mut clients {
        assert_eq!(client.get("/").status(), 200);
    }
    live.stop();
    live.finish().exits(0).loses_nothing();
}
