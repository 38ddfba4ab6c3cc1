//! Faults that a check must find though they hide well, and programs that it must not blame.

use crate::support::{Judged, Test};

/// Forked twice, in a session of its own and with an empty environment: nothing but its coming back tells whose it is.
#[test]
fn a_daemon_that_left_everything_behind_is_found_and_ended() {
    let judged = Test::new().judge(&["--check", "no-orphans"], "daemon");
    judged.is("no-orphans", "failed", &["sleep (process "]);
    let told = judged.check("no-orphans")["evidence"][0].to_string();
    let pid = told.split_once("(process ").expect("a number").1;
    let pid: u32 = pid.split(')').next().unwrap().parse().expect("a number");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!stat.contains("777"), "it still runs: {told}");
}

/// What was accepted and is then sent away, whole and in order, is lost all the same.
#[test]
fn requests_in_flight_that_are_sent_away_are_lost() {
    let test = Test::new();
    let checks = ["--check", "inflight-finishes,term-twice"];
    for (fault, words) in [
        ("slow-503", "answered 503, before the stop 200"),
        ("slow-404", "answered 404, before the stop 200"),
    ] {
        let judged = test.judge(&checks, fault);
        judged.is("inflight-finishes", "failed", &[words]);
        judged.is("term-twice", "skipped", &["at a single signal already"]);
    }
}

/// Who drops everything at one signal does so at two, as PID 1 and below a shell. None of that is to blame.
#[test]
fn what_one_signal_loses_is_not_blamed_on_how_it_was_sent() {
    let test = Test::new();
    let ways = ["term-twice", "signal-storm", "group-signal", "under-shell"];
    let judged = test.judge(
        &["--check", "inflight-finishes,signals,under-shell"],
        "slow-503",
    );
    judged.is("inflight-finishes", "failed", &["answered 503"]);
    for id in ways {
        let words = ["at a single signal already", "see inflight-finishes"];
        judged.is(id, "skipped", &words);
    }
    // It must not get lost that something did.
    let judged = test.judge(&["--check", "term-twice"], "slow-503");
    let words = ["at a single signal already", "answered 503"];
    judged.is("term-twice", "failed", &words);
}

/// It is gone before the stop is asked for, which then has lost nothing and has no exit.
#[test]
fn what_dies_of_a_reload_is_not_blamed_on_the_stop() {
    let test = Test::new();
    let checks = "hup-keeps-serving,term-while-reloading,exit-code";
    let judged = test.judge(&["--reload", "--check", checks], "");
    let words = ["it ended at a SIGHUP: ended by SIGHUP"];
    judged.is("hup-keeps-serving", "failed", &words);
    let words = ["nothing left to stop", "see hup-keeps-serving"];
    judged.is("term-while-reloading", "skipped", &words);
    judged.is("exit-code", "passed", &["exit code 0"]);
    let judged = test.judge(&["--reload", "--check", "term-while-reloading"], "");
    judged.is("term-while-reloading", "failed", &["nothing left to stop"]);
}

/// Bytes that differ each time tell nothing, but a length that never did tells when half of it is missing.
#[test]
fn half_of_an_answer_is_noticed_though_its_bytes_differ_each_time() {
    let test = Test::new();
    let checks = ["--check", "inflight-finishes"];
    let judged = test.judge(&checks, "slow-varies-short");
    judged.is("inflight-finishes", "failed", &["answered with 50 bytes"]);
    let judged = test.judge(&checks, "slow-varies");
    judged.is("inflight-finishes", "passed", &["as long as before"]);
}

/// Answers that were asked for together agree on the second, and those after the signal have the next one.
#[test]
fn a_clock_of_seconds_in_an_answer_is_no_loss() {
    let checks = ["--check", "inflight-finishes,slow-upload"];
    let judged = Test::new().judge(&checks, "clock");
    judged.is("inflight-finishes", "passed", &["as long as before"]);
    judged.is("slow-upload", "passed", &["as long as before"]);
}

#[test]
fn an_answer_is_held_against_those_before_the_stop() {
    let test = Test::new();
    let judged = test.judge(&["--check", "slow-reader"], "large-garbled");
    judged.is("slow-reader", "failed", &["before the stop with 8388608"]);
    let judged = test.judge(&["--check", "slow-upload"], "upload-cut");
    judged.is("slow-upload", "failed", &["before the stop with"]);
    let allowed = ["--check", "slow-upload", "--threshold", "slow-upload=1"];
    let judged = test.judge(&allowed, "upload-cut");
    judged.is("slow-upload", "passed", &["lost, as the threshold allows"]);
    let checks = ["--check", "slow-reader,slow-upload,inflight-finishes"];
    let judged = test.judge(&checks, "");
    for id in ["slow-reader", "slow-upload", "inflight-finishes"] {
        judged.is(id, "passed", &["the same as before"]);
    }
}

/// Four answers are not enough: they are held against those before the stop, one by one.
#[test]
fn requests_sent_together_are_answered_as_they_were_before() {
    let test = Test::new();
    let checks = ["--check", "pipelined"];
    for (fault, words) in [
        ("root-500", "answer 2 of 4, GET /: answered 500"),
        ("root-503", "answer 2 of 4, GET /: answered 503"),
        (
            "root-foreign",
            "answer 4 of 4, GET /: answered with 15 bytes",
        ),
    ] {
        let judged = test.judge(&checks, fault);
        judged.is("pipelined", "failed", &["3 of 4 requests", words]);
    }
    let as_before = ["all 4 requests sent together", "as before the stop"];
    test.judge(&checks, "")
        .is("pipelined", "passed", &as_before);
    // The slow path is asked with GET all the same, and its answer has a body.
    let judged = test.judge(&["--method", "HEAD", "--check", "pipelined"], "");
    judged.is("pipelined", "passed", &as_before);
}

/// A program that ends with success when idle and fails with clients fails.
#[test]
fn the_exit_code_of_every_stop_counts() {
    let test = Test::new();
    let judged = test.judge(&["--check", "exit-code"], "exit-3-with-clients");
    judged.is("exit-code", "failed", &["exit code 3", "under load"]);
    let judged = test.judge(&["--check", "exit-code,term-twice"], "abort-with-clients");
    judged.is("exit-code", "failed", &["SIGABRT", "term-twice stopped it"]);
    judged.is("term-twice", "skipped", &["at a single signal already"]);
    let judged = test.judge(&["--check", "term-twice"], "abort-with-clients");
    judged.is("term-twice", "failed", &["at a single signal already"]);
    let words = ["--check", "exit-code", "--grace", "3s"];
    let judged = test.judge(&words, "hang-with-clients");
    judged.is("exit-code", "failed", &["under load", "had to be killed"]);
    let judged = test.judge(&["--check", "exit-code"], "");
    judged.is("exit-code", "passed", &["exit code 0"]);
}

/// Killed after the grace period, a program has failed. The check that is about it tells it, and the others refer to it.
#[test]
fn what_never_ends_is_told_once() {
    let checks =
        "no-orphans,port-free,term-twice,idle-keepalive,half-head,keepalive-race,fresh-connections";
    let test = Test::new();
    let words = |checks: &str| format!("{checks},exit-code");
    let judged = test.judge(&["--grace", "700ms", "--check", &words(checks)], "deaf");
    for id in checks.split(',') {
        judged.is(id, "skipped", &["even when idle", "see exit-code"]);
        let told = judged.check(id).to_string();
        assert!(!told.contains("it ends in"), "{told}");
    }
    judged.is("exit-code", "failed", &["had to be killed", "700 ms"]);
    let hint = judged.check("exit-code")["hint"].to_string();
    assert!(hint.contains("handle the stop signal"), "{hint}");
    assert_eq!(judged.0["verdict"], "failed");
    // Where no check is about it, the first one tells it.
    let judged = test.judge(&["--grace", "700ms", "--check", checks], "deaf");
    let checks = judged.0["checks"].as_array().expect("checks");
    let failed: Vec<_> = checks
        .iter()
        .filter(|it| it["outcome"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(judged.0["verdict"], "failed");
}

/// Nothing was lost, and still it is not a stop.
#[test]
fn a_race_without_an_end_is_not_won() {
    let checks = "keepalive-race,fresh-connections";
    let words = ["--quick", "--grace", "3s", "--check", checks];
    let judged = Test::new().judge(&words, "hang-with-clients");
    for id in checks.split(',') {
        judged.is(id, "failed", &["had to be killed", "under load"]);
    }
}

/// A client that gets a 503 was accepted before.
#[test]
fn to_be_turned_away_under_load_is_a_failure() {
    let checks = "keepalive-race,fresh-connections";
    let judged = Test::new().judge(&["--quick", "--check", checks], "root-503");
    for id in checks.split(',') {
        judged.is(id, "failed", &["5xx"]);
    }
}

/// A server without keep-alive has no connections to reuse, and nothing to lose on them.
#[test]
fn connections_that_are_never_kept_are_not_raced() {
    let checks = ["--quick", "--check", "keepalive-race,exit-in-time"];
    let judged = Test::new().judge(&checks, "never-keeps");
    judged.is(
        "keepalive-race",
        "skipped",
        &["closes the connection after every answer"],
    );
    judged.is("exit-in-time", "passed", &["loaded: 1 stops"]);
}

/// One stop in a race says little: it is looked for in several, until the first that loses too much.
#[test]
fn a_race_is_looked_for_in_several_stops_until_one_loses() {
    let test = Test::new();
    let stops = |threshold: &str| {
        let words = [
            "--quick",
            "--check",
            "keepalive-race",
            "--threshold",
            threshold,
        ];
        // What this program loses is its own affair.
        let judged = test.judge(&words, "");
        let reason = judged.check("keepalive-race")["reason"].to_string();
        let (before, _) = reason.split_once(" stop").expect("a number of stops");
        let number = before
            .rsplit(' ')
            .next()
            .and_then(|it| it.parse::<u32>().ok());
        (number.expect("a number"), reason)
    };
    // Where the machine is slow no further one is begun after eight seconds.
    let (several, reason) = stops("keepalive-race=1000000");
    assert!((2..=5).contains(&several), "{reason}");
    let judged = test.judge(&["--quick", "--check", "fresh-connections"], "root-503");
    let reason = judged.check("fresh-connections")["reason"].to_string();
    assert!(reason.contains("in 1 stop: "), "{reason}");
}

/// Answers one client after the other: half a request keeps all others out, which is not a matter of its stop.
const ONE_AT_A_TIME: &str = r#"
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with listener.accept()[0] as peer:
        head = b""
        while b"\r\n\r\n" not in head and (piece := peer.recv(65536)):
            head += piece
        if head:
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

#[test]
fn what_cannot_be_opened_before_a_stop_is_no_failure_of_it() {
    let test = Test::new().file("one.py", ONE_AT_A_TIME);
    let words = [
        "--http",
        crate::support::URL,
        "--check",
        "half-head",
        "--json",
    ];
    let ran = test.run(&[&words[..], &["--", "python3", "one.py", "{port}"]].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    judged.is(
        "half-head",
        "skipped",
        &["before any stop", "one connection at a time"],
    );
}

/// Every client is answered, each in its turn.
#[test]
fn a_slow_program_is_stopped_as_soon_as_every_client_was_answered() {
    let slow = ONE_AT_A_TIME.replace("if head:", "if head and not time.sleep(0.5):");
    let test = Test::new().file(
        "slow.py",
        &slow.replace("import signal,", "import time, signal,"),
    );
    // What this program loses is its own affair.
    let checks = [
        "--check",
        "fresh-connections",
        "--threshold",
        "fresh-connections=1000",
    ];
    let words = [
        "--http",
        crate::support::URL,
        "--quick",
        "--clients",
        "4",
        "--json",
    ];
    let command = ["--", "python3", "slow.py", "{port}"];
    let ran = test.run(&[&checks[..], &words, &command].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    judged.is("fresh-connections", "passed", &["requests were lost in"]);
}

/// What nothing here can parse is not said to be whole.
#[test]
fn a_state_is_said_to_be_whole_only_if_it_was_looked_into() {
    let test = Test::new()
        .file("state.db", "something")
        .file("state.ndjson", "{}\n{\"a\":");
    let look = |file: &str| {
        test.judge(
            &["--quick", "--check", "state-intact", "--state-file", file],
            "",
        )
    };
    look("state.db").is("state-intact", "passed", &["not empty", "--state-command"]);
    look("state.ndjson").is("state-intact", "failed", &["line 2"]);
}

/// The answer to a HEAD tells of a body that never comes.
#[test]
fn a_head_is_answered_without_a_body() {
    let checks = ["--method", "HEAD", "--ready-within", "5s", "--quick"];
    // What this program loses is its own affair.
    let loss = ["--threshold", "keepalive-race=1000000"];
    let checks = [&checks[..], &loss, &["--check", "keepalive-race"]].concat();
    let judged = Test::new().judge(&checks, "");
    judged.is("keepalive-race", "passed", &["stops"]);
}

/// A stop that readiness is asked about shows when it said no, and nothing of the program outlives its exit.
#[test]
fn the_marks_of_a_loaded_stop_are_in_order() {
    let judged = Test::new().judge(&["--quick", "--check", "fresh-connections"], "");
    let marks = judged.0["stops"][0]["marks"].as_array().expect("marks");
    let kinds: Vec<_> = marks.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert!(kinds.contains(&"readiness-off"), "{kinds:?}");
    let place = |kind: &str| kinds.iter().position(|it| *it == kind);
    assert!(place("listener-closed") < place("exit"), "{kinds:?}");
}

/// What a path carries behind its question mark may be a secret.
#[test]
fn evidence_has_no_query() {
    let slow = "/slow?token=geheim&ms={ms}";
    let checks = ["--check", "inflight-finishes", "--slow", slow];
    let judged = Test::new().judge(&checks, "slow-503");
    judged.is("inflight-finishes", "failed", &["GET /slow"]);
    let check = judged.check("inflight-finishes").to_string();
    assert!(!check.contains("geheim"), "{check}");
}

#[test]
fn readiness_that_never_says_no_is_shown_with_its_times() {
    let judged = Test::new().judge(&["--check", "ready-before-close"], "always-ready");
    let words = [
        "the first no of GET /readyz came never",
        "the first refusal at",
    ];
    judged.is("ready-before-close", "failed", &words);
}

/// The shell is gone within a millisecond; the program answers its requests first.
#[test]
fn below_a_shell_the_program_is_timed_and_not_the_shell() {
    let judged = Test::new().judge(&["--check", "under-shell"], "");
    judged.is("under-shell", "passed", &["answered all 2 requests"]);
    let measured = judged.check("under-shell")["measured"].to_string();
    // Fractions of a millisecond are shown below ten of them.
    let at_once = measured.contains('.') && measured.contains(" ms");
    assert!(!at_once, "{measured}");
}
