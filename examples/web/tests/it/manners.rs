//! What a client gets while the service shuts down.

use crate::client::{Over, each};
use crate::h2::{H2, NO_LIMIT};
use crate::web::Web;

#[test]
fn a_handler_that_never_ends_is_cut_and_named() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Web::new().grace("2s").tls(over.is_tls()).start();
        let mut client = live.connect(over);
        client.ask("/slow?ms=600000");
        live.stop();
        assert_eq!(client.answer().status(), 503);
        client.is_closed();
        let ended = live.finish();
        ended.exits(3).within_ms(2_000);
        let peer = client.socket.local_addr().expect("an address").to_string();
        ended.loses(&[&format!("GET /slow from {peer}")]);
        let age = ended.report["lost"][0]["age_ms"].as_f64();
        assert!(age.is_some_and(|age| age > 500.0), "{ended:?}");
    });
    each([Over::Http2, Over::Http2Tls], |over| {
        let mut live = Web::new().grace("2s").tls(over.is_tls()).start();
        let mut h2 = H2::connect(&live, over);
        h2.ask(1, "/slow?ms=600000", true);
        live.stop();
        h2.rest_of_it();
        live.finish()
            .exits(3)
            .within_ms(2_000)
            .loses(&["GET /slow from 127.0.0.1:"]);
    });
}

/// It cannot be dropped, and is named all the same.
#[test]
fn a_handler_that_blocks_its_thread_is_named() {
    each([Over::Http1, Over::Http2], |over| {
        let mut live = Web::new().grace("2s").start();
        let client = if over == Over::Http2 {
            let mut h2 = H2::connect(&live, over);
            h2.ask(1, "/slow?ms=1", true);
            h2.ask(3, "/block?ms=600000", true);
            assert_eq!(h2.answer(1), "slept 1 ms\n");
            h2.client
        } else {
            let mut client = live.connect(over);
            client.ask("/block?ms=600000");
            client
        };
        live.stop();
        let ended = live.finish();
        let peer = client.socket.local_addr().expect("an address").to_string();
        ended
            .exits(3)
            .within_ms(2_500)
            .loses(&[&format!("GET /block from {peer}")]);
        assert_eq!(ended.report["lost"][0]["state"], "blocking", "{ended:?}");
        assert_eq!(
            ended.report["lost"].as_array().map(Vec::len),
            Some(1),
            "{ended:?}"
        );
        assert_eq!(
            ended.report["blocked"][0]["task"], "GET /block",
            "{ended:?}"
        );
    });
}

#[test]
fn a_lame_duck_serves_every_client_and_sends_it_elsewhere() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Web::new().lame_duck("1s").tls(over.is_tls()).start();
        let mut old = live.connect(over);
        assert!(!old.get("/").closes());
        live.stop();
        // Goes on until the server says `Connection: close`: from then on the stop is announced.
        while !live.connect(over).get("/").closes() {}
        for _ in 0..3 {
            let answer = live.connect(over).get("/");
            assert_eq!((answer.status(), answer.closes()), (200, true));
        }
        assert!(old.get("/").closes());
        old.is_closed();
        live.finish()
            .exits(0)
            .not_before_ms(1_000)
            .within_ms(1_700)
            .closes_no_other_connection();
    });
}

#[test]
fn a_lame_duck_serves_new_http2_clients_before_it_sends_them_elsewhere() {
    each([Over::Http2, Over::Http2Tls], |over| {
        let mut live = Web::new().lame_duck("1s").tls(over.is_tls()).start();
        let mut old = H2::connect(&live, over);
        old.ask(1, "/", true);
        old.answer(1);
        live.stop();
        old.expect("the announcement", |frame| {
            frame.last_stream() == Some(NO_LIMIT)
        });
        // A client that goes on all the same is served.
        for stream in [3, 5] {
            old.ask(stream, "/", true);
            assert_eq!(old.answer(stream), "hello\n");
        }
        // The stop is announced. A new client exchanges settings first, and is not turned away before it has asked.
        let mut new = H2::connect(&live, over);
        assert!(new.goaways.is_empty());
        new.ask(1, "/", true);
        assert_eq!(new.answer(1), "hello\n");
        for (mut client, last) in [(old, 5), (new, 1)] {
            client.rest_of_it();
            assert_eq!(client.goaways, [NO_LIMIT, last]);
        }
        live.finish()
            .exits(0)
            .not_before_ms(1_000)
            .within_ms(1_700)
            .closes_no_other_connection();
    });
}

/// Also one that has connected in advance, a moment ago, and asks for nothing.
#[test]
fn a_lame_duck_sends_an_http2_client_elsewhere_that_has_not_asked() {
    let mut live = Web::new().lame_duck("4s").start();
    let mut quiet = H2::connect(&live, Over::Http2);
    live.stop();
    quiet.expect("the announcement", |frame| {
        frame.last_stream() == Some(NO_LIMIT)
    });
    // The lame duck is not over yet.
    assert_eq!(live.connect(Over::Http1).get("/").status(), 200);
    live.finish().exits(0).loses_nothing();
}

/// One that has asked to keep the connection gets `Connection: close`, and not both.
#[test]
fn an_old_client_is_told_to_close_and_nothing_else() {
    let mut live = Web::new().start();
    let mut client = live.connect(Over::Http1);
    client.send("GET /slow?ms=1000 HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n");
    live.stop_and_be_refused();
    let answer = client.answer();
    assert_eq!(answer.status(), 200);
    let said = answer.head.to_lowercase();
    assert!(said.contains("connection: close\r\n"), "{answer:?}");
    assert!(!said.contains("keep-alive"), "{answer:?}");
    client.is_closed();
    live.finish().exits(0).loses_nothing();
}

#[test]
fn half_a_preface_has_one_answer() {
    let mut live = Web::new().start();
    let mut client = live.connect(Over::Http1);
    client.send("PRI * HTTP/2.0\r\n\r\nSM");
    live.stop();
    let said = String::from_utf8_lossy(&client.rest_of_it()).into_owned();
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    live.finish().exits(0);
}
