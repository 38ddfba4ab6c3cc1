//! Liveness on a port of its own.

use crate::support::{Judged, Test, URL};

fn judge(fault: &str) -> Judged {
    let live = "http://127.0.0.1:{port2}/livez";
    let words = [
        "--http",
        URL,
        "--liveness",
        live,
        "--check",
        "live-while-draining",
        "--json",
    ];
    let command = ["--", "python3", "careful.py", "{port}", fault, "{port2}"];
    let ran = Test::new().run(&[&words[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

/// The program is gone as soon as the held request is answered, before the drill has looked whether it was.
#[test]
fn a_port_that_is_gone_while_a_request_is_held_is_found() {
    let judged = judge("live-refused");
    judged.is("live-while-draining", "failed", &["refused"]);
}

#[test]
fn a_probe_that_is_closed_without_an_answer_is_no_yes() {
    let judged = judge("live-closed");
    judged.is("live-while-draining", "failed", &["closed before a byte"]);
}

#[test]
fn a_port_that_stays_until_the_drain_is_over_is_right() {
    judge("").is("live-while-draining", "passed", &["none said no"]);
}
