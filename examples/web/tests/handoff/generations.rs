//! SIGUSR2 under load: the new process takes over, and no client notices.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use adieu_load::{Load, Mode, Target};
use adieu_testkit::iterations;

use crate::lineage::{Lineage, PATIENCE, links};

/// New versions that fail, and what is said of them.
const BAD: [(&str, &str); 5] = [
    ("exit 7", "ended in its start-up with exit code 7"),
    (
        r#"exec "$WEB" --tls-cert /nonexistent --tls-key /nonexistent "$@""#,
        "exit code 1",
    ),
    ("kill -9 $$", "was killed in its start-up by signal 9"),
    ("exec sleep 600", "was not ready within 5.00 s"),
    (
        r#"exec "$WEB" --warm-up 1h "$@""#,
        "was not ready within 5.00 s",
    ),
];

async fn no_client_notices(mode: Mode, hand_offs: usize) {
    // Those that hang are among the many only; a good one may take its time on a busy machine.
    let patience = format!("{}s", iterations(40, 5));
    let mut web = Lineage::start("127.0.0.1:0", &["--handoff-timeout", &patience]);
    let address = web.listen.expect("an address");
    let load = Load::http1(Target::tcp(address), "/")
        .mode(mode)
        .clients(32)
        .patience(PATIENCE)
        .start();
    let mut answers = 200;
    load.answered(answers).await;
    for number in 0..hand_offs {
        // Every second one is preceded by one that fails.
        if number % 2 == 1 {
            let (script, problem) = BAD[number / 2 % BAD.len()];
            web.next_is(script);
            let before = web.pid();
            let why = web.hand_over_in_vain();
            assert!(why.contains(problem), "{why}");
            assert_eq!(web.holders(), BTreeSet::from([before]));
            web.next_is_good();
        }
        web.hand_over();
        assert_eq!(
            web.holders(),
            BTreeSet::from([web.pid()]),
            "exactly one has the port"
        );
        answers += 50;
        tokio::time::timeout(PATIENCE, load.answered(answers))
            .await
            .expect("the new one answers");
    }
    load.end();
    let tally = load.finish().await;
    println!("{mode:?}, {hand_offs} hand-offs: {tally}");
    let failed = [
        tally.lost(),
        tally.unsent,
        tally.failed,
        tally.refused,
        tally.retry,
    ];
    assert_eq!(failed, [0; 5], "{tally}");
    assert_eq!(web.stop(), Some(0));
    let notes = web.last_report()["parts"][0]["notes"].to_string();
    assert!(notes.contains("listener handed over by process"), "{notes}");
    assert!(
        notes.contains("accept queue drained, listener closed"),
        "the last one closes it: {notes}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_connections_that_are_kept_and_fresh_ones() {
    no_client_notices(Mode::Mixed, iterations(4, 60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_connection_for_each_request() {
    no_client_notices(Mode::Fresh, iterations(3, 40)).await;
}

/// What a process has open once it has settled: connections of ours take a moment to be closed.
fn descriptors(pid: u32, most: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let found = links(pid);
        if found.len() <= most || begun.elapsed() > Duration::from_secs(10) {
            return found;
        }
        thread::yield_now();
    }
}

#[test]
fn no_descriptor_is_left_over() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    // With at most one more than it needs, of the question whether it is ready.
    let first = links(web.pid());
    web.next_is("exit 7");
    for _ in 0..iterations(4, 20) {
        web.hand_over_in_vain();
    }
    let after = descriptors(web.pid(), first.len());
    assert!(
        after.len() <= first.len(),
        "after failures: {first:#?} {after:#?}"
    );
    web.next_is_good();
    for _ in 0..iterations(4, 20) {
        web.hand_over();
    }
    let last = descriptors(web.pid(), first.len());
    assert!(
        last.len() <= first.len(),
        "after hand-offs: {first:#?} {last:#?}"
    );
    assert_eq!(web.stop(), Some(0));
}

#[test]
fn a_socket_file_goes_with_the_service_and_not_with_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let ask = || {
        let mut stream = UnixStream::connect(&path).expect("a process listens");
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    };
    let mut web = Lineage::start(&format!("unix:{}", path.display()), &[]);
    ask();
    for _ in 0..2 {
        web.hand_over();
        ask();
    }
    web.next_is("exit 7");
    web.hand_over_in_vain();
    ask();
    assert_eq!(web.stop(), Some(0));
    assert!(!path.exists(), "the last one removes it");
}

#[test]
fn what_is_under_way_is_finished_by_the_old_process() {
    let mut web = Lineage::start("127.0.0.1:0", &[]);
    let mut slow =
        std::net::TcpStream::connect(web.listen.expect("an address")).expect("it listens");
    slow.write_all(b"GET /slow?ms=1500 HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("it reads");
    // Until the request is in.
    let begun = Instant::now();
    while web.ask("/health").is_none_or(|(_, text)| {
        !text.contains("\"requests\": 1") && !text.contains("\"requests\":1")
    }) {
        assert!(begun.elapsed() < PATIENCE);
        thread::yield_now();
    }
    let old = web.pid();
    web.hand_over();
    // The connection is the new process's by now, and so is the next request.
    slow.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    slow.read_to_string(&mut text).expect("two answers");
    let (first, second) = text.split_once("slept 1500 ms\n").expect("the answer");
    assert!(first.starts_with("HTTP/1.1 200"), "{text}");
    assert!(
        !first.to_ascii_lowercase().contains("connection: close"),
        "{text}"
    );
    assert!(second.starts_with("HTTP/1.1 200"), "{text}");
    assert_eq!(
        web.last_report()["cause"],
        format!("handed over to process {}", web.pid())
    );
    assert_ne!(old, web.pid());
    let last = &web.health()["handoff"];
    assert_eq!(
        (&last["outcome"], &last["pid"]),
        (&"took over".into(), &old.into())
    );
    assert_eq!(
        web.report()["pid"],
        web.pid(),
        "the admin port is the new one's"
    );
    assert_eq!(web.stop(), Some(0));
}
