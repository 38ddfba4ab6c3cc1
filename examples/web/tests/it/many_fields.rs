//! What one HTTP/2 client can make the server keep: requests at a time, and the header fields of each.

use std::io::Write;
use std::time::Duration;

use adieu::http::Limits;
use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::{get, post};

use crate::client::Over;
use crate::h2::{DATA, END_HEADERS, END_STREAM, H2, HEADERS, PING, RST_STREAM, SETTINGS};
use crate::live::Live;
use crate::own::Own;

const MAX_CONCURRENT_STREAMS: u16 = 3;
const MAX_HEADER_LIST_SIZE: u16 = 6;

fn start(limits: Limits) -> Live {
    let router = Router::new().route("/", get(async || "hello\n")).route(
        "/keep",
        // Keeps the fields for as long as the body has not come.
        post(async |fields: HeaderMap, body: Bytes| (fields.len() + body.len()).to_string()),
    );
    Own::new(router).limits(limits).start()
}

/// What the server says of itself, of those that it names.
fn settings(live: &Live) -> Vec<(u16, u32)> {
    let mut client = live.connect(Over::Http2);
    client.send(crate::h2::PREFACE);
    let head = client.exactly(9);
    assert_eq!(head[3], SETTINGS);
    let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
    let settings = client.exactly(length);
    settings
        .chunks_exact(6)
        .map(|it| {
            let value = u32::from_be_bytes([it[2], it[3], it[4], it[5]]);
            (u16::from_be_bytes([it[0], it[1]]), value)
        })
        .collect()
}

#[test]
fn a_client_is_told_how_much_it_may_ask_for() {
    let said = |live: &Live, setting| {
        let all = settings(live);
        all.iter()
            .find(|(key, _)| *key == setting)
            .map(|(_, it)| *it)
    };
    // The size of a head of HTTP/1 is another one.
    let mut live = start(Limits::default().head_size(1 << 20));
    assert_eq!(said(&live, MAX_CONCURRENT_STREAMS), Some(100));
    assert_eq!(said(&live, MAX_HEADER_LIST_SIZE), Some(16 * 1_024));
    live.stop();
    live.finish().exits(0);
    let mut live = start(Limits::default().http2_streams(7).http2_head_size(4_096));
    assert_eq!(said(&live, MAX_CONCURRENT_STREAMS), Some(7));
    assert_eq!(said(&live, MAX_HEADER_LIST_SIZE), Some(4_096));
    live.stop();
    live.finish().exits(0);
}

/// A request whose fields take so many bytes here, each of them one byte on the way: 19 in the static table is `accept`.
fn block(path: &str, fields: usize) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).expect("short")];
    block.extend(path.as_bytes());
    block.extend([0x01, 1, b'x']);
    block.extend(std::iter::repeat_n(0x80 | 19, fields));
    block
}

/// The status of a stream: a number of the static table, or a literal by Huffman's code.
fn status(h2: &mut H2, stream: u32) -> String {
    let frame = h2.expect("an answer", |frame| frame.stream == stream);
    assert_eq!(frame.kind, HEADERS, "{frame:?}");
    match frame.payload[..] {
        [0x88, ..] => "200".to_owned(),
        [0x48, 0x83, 0x69, 0x90, 0xff, ..] => "431".to_owned(),
        _ => format!("{frame:?}"),
    }
}

#[test]
fn more_than_a_head_may_have_is_answered_with_431() {
    let mut live = start(Limits::default());
    for (fields, expected) in [
        (100 - 1, "200"),
        (100 + 1, "431"),
        // More than 16 KiB, by the count of HTTP/2.
        (500, "431"),
    ] {
        let mut h2 = H2::connect(&live, Over::Http2);
        let block = block("/keep", fields);
        h2.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block);
        assert_eq!(status(&mut h2, 1), expected, "{fields} fields");
    }
    let mut client = live.connect(Over::Http1);
    let fields = "x: y\r\n".repeat(101);
    client.send(format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"));
    assert_eq!(client.answer().status(), 431);
    live.stop();
    live.finish().exits(0).loses_nothing();
}

#[test]
fn the_number_of_fields_can_be_chosen() {
    let mut live = start(Limits::default().head_fields(300));
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block("/keep", 290));
    assert_eq!(status(&mut h2, 1), "200");
    let mut client = live.connect(Over::Http1);
    let fields = "x: y\r\n".repeat(290);
    client.send(format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"));
    assert_eq!(client.answer().status(), 200);
    live.stop();
    live.finish().exits(0).loses_nothing();
}

/// Browsers send every cookie in a field of its own.
#[test]
fn all_cookies_are_one_field() {
    let mut live = start(Limits::default());
    let mut h2 = H2::connect(&live, Over::Http2);
    let mut many = block("/keep", 10);
    // 32 in the static table is `cookie`.
    many.extend([0x0f, 32 - 15, 1, b'c'].repeat(200));
    h2.frame(HEADERS, END_HEADERS | END_STREAM, 1, &many);
    assert_eq!(status(&mut h2, 1), "200");
    live.stop();
    live.finish().exits(0).loses_nothing();
}

/// How much memory this process has in use, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a file of the kernel");
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number");
    pages * 4_096
}

/// Opens streams whose bodies do not come, until it is hung up on; gives the bytes sent.
fn open(h2: &mut H2, streams: u32, fields: usize) -> u64 {
    let mut socket = h2
        .client
        .socket
        .try_clone()
        .expect("a socket can be shared");
    // A field of the shortest name and no value, written down once, and then named by one byte each time.
    let mut block = block("/keep", 0);
    block.extend([0x40, 1, b'a', 0]);
    block.extend(std::iter::repeat_n(0x80 | 62, fields - 1));
    let length = u16::try_from(block.len()).expect("it fits into a frame");
    let [a, b] = length.to_be_bytes();
    let mut sent = 0;
    for number in 0..streams {
        let mut frame = vec![0, a, b, HEADERS, END_HEADERS];
        frame.extend((2 * number + 1).to_be_bytes());
        frame.extend(&block);
        if socket.write_all(&frame).is_err() {
            break;
        }
        sent += frame.len() as u64;
    }
    // What came before has been seen when this is answered.
    let ping = [0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    if socket.write_all(&ping).is_ok() {
        while h2.next().is_some_and(|frame| frame.kind != PING) {}
    }
    sent
}

/// What four connections like this cost, and how many bytes they sent. The first one is not counted: it fills what is
/// there once for all.
fn cost_of_four(streams: u32, fields: usize) -> (u64, u64) {
    let mut live = start(Limits::default().stall(Duration::from_secs(600)));
    let attack = || {
        let mut h2 = H2::connect(&live, Over::Http2);
        let sent = open(&mut h2, streams, fields);
        (h2, sent)
    };
    let first = attack();
    let before = resident();
    let others = [(); 4].map(|()| attack());
    let grown = resident().saturating_sub(before);
    let sent = others.iter().map(|(_, sent)| sent).sum();
    println!("{streams} streams of {fields} fields: {sent} bytes sent, {grown} more in use");
    drop((first, others));
    live.stop();
    live.finish().exits(0);
    (grown, sent)
}

/// Each of the streams has as many fields as fit into one frame, and each field is one byte on the way.
#[test]
fn a_flood_of_header_fields_is_not_kept() {
    let (grown, sent) = cost_of_four(256, 1_900);
    assert!(grown < 8 * sent, "{grown} bytes for {sent}");
}

/// As much as the limits allow.
#[test]
fn what_is_kept_of_one_connection_has_a_bound() {
    const BOUND: u64 = 4 << 20;
    let (grown, _) = cost_of_four(100, 99);
    assert!(grown < 4 * BOUND, "{grown} bytes for four connections");
}

/// Real work is still done beside it.
#[test]
fn as_many_requests_as_allowed_are_served_at_once() {
    let mut live = start(Limits::default());
    let mut h2 = H2::connect(&live, Over::Http2);
    let streams: Vec<u32> = (0..100).map(|number| 2 * number + 1).collect();
    for stream in &streams {
        h2.ask(*stream, "/keep", false);
    }
    for stream in &streams {
        h2.frame(DATA, END_STREAM, *stream, b"x");
    }
    let mut answered = 0;
    while answered < streams.len() {
        let frame = h2.next().expect("it goes on");
        assert_ne!(frame.kind, RST_STREAM, "{frame:?}");
        answered += usize::from(frame.ends_stream());
    }
    live.stop();
    live.finish().exits(0).loses_nothing();
}
