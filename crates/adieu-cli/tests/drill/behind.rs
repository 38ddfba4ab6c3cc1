//! A program behind a balancer, simulated or real, while its instances are replaced.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::support::{Ran, Test, URL};

/// A balancer that sends to an instance for at least a quarter of a second after its stop has begun.
const LATE: &str = r#"
about = "a balancer of the tests"
balances = "connections"
[removal]
delay = "250ms"
spread = "150ms"
source = "of the test"
[pool]
connections = 4
source = "of the test"
"#;

const HELLO: [&str; 4] = ["--", "python3", "hello.py", "{port}"];

fn test() -> Test {
    let retries = LATE.replace("\"connections\"", "\"requests\"")
        + "[retry]\ntimes = 1\non = [\"refused\", \"reused\", \"reset\"]\nsource = \"of the test\"\n";
    Test::new()
        .file("late.toml", LATE)
        .file("retries.toml", &retries)
}

fn behind(test: &Test, profile: &str, words: &[&str], command: &[&str]) -> Ran {
    let base = [
        "--behind", profile, "--http", URL, "--rate", "200", "--json",
    ];
    test.run(&[&base[..], words, command].concat())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out())
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out(), ran.err()))
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {report:#}"))
}

#[test]
fn what_is_sent_to_a_stopped_instance_is_lost_and_the_advice_loses_nothing() {
    let ran = behind(&test(), "./late.toml", &["--prove-advice"], &HELLO);
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    let report = json(&ran);
    let lost = check(&report, "behind-lost");
    assert_eq!(lost["outcome"], "failed", "{report:#}");
    let evidence = lost["evidence"].to_string();
    assert!(
        evidence.contains("sent to an instance that had closed its listener"),
        "{evidence}"
    );
    assert!(
        lost["hint"].to_string().contains("before the stop signal"),
        "{lost:#}"
    );
    // 0.4 s at most and a second more, in whole seconds.
    assert_eq!(report["behind"]["advice"]["pre_stop_ms"], 2_000.0);
    assert_eq!(
        check(&report, "behind-advice")["outcome"],
        "passed",
        "{report:#}"
    );
    assert_eq!(report["behind"]["runs"][1]["lost"], 0, "{report:#}");
}

#[test]
fn an_instance_that_serves_until_the_balancer_is_done_loses_nothing() {
    let ran = behind(
        &test(),
        "./late.toml",
        &["--pre-stop", "1s", "--instances", "3"],
        &HELLO,
    );
    let report = json(&ran);
    assert_eq!(ran.code(), Some(0), "{report:#}");
    let stops = report["stops"][0]["marks"].as_array().expect("marks");
    let out = stops.iter().filter(|mark| mark["kind"] == "out-of-routes");
    assert_eq!(out.count(), 3, "{stops:#?}");
}

#[test]
fn a_balancer_that_tries_another_instance_hides_the_stop() {
    let ran = behind(&test(), "./retries.toml", &[], &HELLO);
    let report = json(&ran);
    assert_eq!(ran.code(), Some(0), "{report:#}");
    let run = &report["behind"]["runs"][0];
    assert!(run["retried"].as_u64() > Some(0), "{run:#}");
}

#[test]
fn an_instance_that_does_not_end_is_killed_and_told() {
    let ignores = crate::support::HELLO.replace("sys.exit(0)", "pass");
    let test = test().file("ignores.py", &ignores);
    let command = ["--", "python3", "ignores.py", "{port}"];
    let ran = behind(
        &test,
        "none",
        &["--grace", "1s", "--instances", "1"],
        &command,
    );
    let report = json(&ran);
    let killed = check(&report, "behind-in-time");
    assert_eq!(killed["outcome"], "failed", "{report:#}");
    assert!(
        killed["reason"]
            .to_string()
            .contains("1 instances were killed"),
        "{killed:#}"
    );
}

/// Answers after 150 ms, and is gone at once when it is asked to stop: what is in flight then is cut.
const CUTS: &str = r#"
import os, signal, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Late(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(0.15)
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"late")
    do_POST = do_GET
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 128
    def handle_error(self, *_):
        pass
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server(("127.0.0.1", int(sys.argv[1])), Late).serve_forever()
"#;

/// Whether it is there; that it is not is a counted skip.
fn is_installed(name: &str) -> bool {
    let directories = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin"];
    let mut directories = directories.iter().map(Path::new);
    let installed = directories.any(|directory| directory.join(name).exists());
    if !installed {
        fixture_skip::missing(name);
    }
    installed
}

/// The report of one instance that is replaced behind this balancer; None if that is not installed.
fn behind_real(name: &str, words: &[&str]) -> Option<Value> {
    if !is_installed(name) {
        return None;
    }
    let test = test().file("cuts.py", CUTS);
    let words = [&["--instances", "1"], words].concat();
    let command = ["--", "python3", "cuts.py", "{port}"];
    Some(json(&behind(
        &test,
        &format!("{name}:real"),
        &words,
        &command,
    )))
}

/// How many requests were lost, and why.
fn lost(report: &Value) -> (u64, String) {
    let run = &report["behind"]["runs"][0];
    (
        run["lost"].as_u64().expect("a number"),
        run["losses"].to_string(),
    )
}

const BROKE: &str = "the balancer's connection to it broke before a byte of the response";

#[test]
fn a_real_nginx_sends_again_what_may_be_sent_again() {
    let Some(report) = behind_real("nginx", &[]) else {
        return;
    };
    assert_eq!(lost(&report).0, 0, "{report:#}");
    let retried = report["behind"]["runs"][0]["retried"].as_u64();
    assert!(retried > Some(0), "nothing was in flight: {report:#}");
    assert_eq!(check(&report, "behind-lost")["outcome"], "passed");
}

#[test]
fn a_real_nginx_does_not_send_a_post_again_and_its_log_tells_why() {
    let Some(report) = behind_real("nginx", &["--method", "POST"]) else {
        return;
    };
    let (lost, why) = lost(&report);
    assert!(lost > 0 && why.contains(BROKE), "{why}: {report:#}");
    assert_eq!(check(&report, "behind-lost")["outcome"], "failed");
    assert!(why.contains("instance 1"), "{why}");
}

#[test]
fn a_real_haproxy_takes_an_instance_out_by_its_own_check() {
    let Some(report) = behind_real("haproxy", &[]) else {
        return;
    };
    let (lost, why) = lost(&report);
    assert!(lost > 0 && why.contains(BROKE), "{why}: {report:#}");
    // Three checks, two seconds apart: no reload takes it out.
    let marks = report["stops"][0]["marks"].as_array().expect("marks");
    let at = |kind: &str| {
        let mark = marks.iter().find(|mark| mark["kind"] == kind);
        mark.and_then(|mark| mark["at_us"].as_i64()).expect(kind)
    };
    assert!(at("out-of-routes") - at("exit") > 2_000_000, "{marks:#?}");
}

/// The processes whose command line has this directory, and their children.
fn processes_of(directory: &Path) -> Vec<u32> {
    let directory = directory.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found = Vec::new();
    for id in ids {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&directory) {
            found.push(id);
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            let children = children.unwrap_or_default();
            found.extend(children.split(' ').filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    found
}

/// nginx writes its titles over the environment by which the guard knows the drill's processes.
#[test]
fn killed_the_drill_leaves_no_nginx_behind() {
    if !is_installed("nginx") {
        return;
    }
    let test = test();
    let scratch = test.path().join("scratch");
    fs::create_dir(&scratch).expect("a directory");
    let words = ["--behind", "nginx:real", "--http", URL];
    let mut child = test
        .command(&[&words[..], &HELLO].concat())
        .env("TMPDIR", &scratch)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let begun = Instant::now();
    let is_nginx = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.trim() == "nginx"
    };
    // The master and its worker.
    let mut running = Vec::new();
    while running.len() < 2 {
        assert!(begun.elapsed().as_secs() < 60, "nginx was not started");
        running = processes_of(&scratch);
        running.retain(is_nginx);
        running.sort_unstable();
        running.dedup();
    }
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    let begun = Instant::now();
    while running.iter().any(is_nginx) {
        assert!(
            begun.elapsed().as_secs() < 10,
            "{running:?} were left behind"
        );
        std::thread::yield_now();
    }
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_started() {
    let test = test()
        .file("bad.toml", "about = \"x\"\nbalances = 7\n")
        .file(
            "deaf.toml",
            LATE.split_once("[removal]").map_or("", |(head, _)| head),
        );
    let started = ["--", "sh", "-c", "touch started {port}"];
    for (words, said) in [
        (
            &["--behind", "elb", "--http", URL][..],
            "there is no profile `elb`; there are kube-proxy",
        ),
        (
            &["--behind", "./none.toml", "--http", URL],
            "--behind ./none.toml: ",
        ),
        (&["--behind", "./bad.toml", "--http", URL], "line 2: "),
        (
            &["--behind", "./deaf.toml", "--http", URL],
            "missing field `pool`",
        ),
        (
            &["--behind", "none", "--http", URL, "--instances", "0"],
            "--instances: at least 1",
        ),
        (
            &["--behind", "none", "--http", URL, "--rate", "0"],
            "--rate: more than 0",
        ),
        (
            &["--behind", "none", "--http", URL, "--pre-stop", "30s"],
            "shorter than the grace period",
        ),
        (
            &[
                "--behind",
                "none",
                "--http",
                URL,
                "--threshold",
                "exit-code=0",
            ],
            "behind-lost, behind-in-time",
        ),
        (
            &["--behind", "none", "--http", URL, "--quick"],
            "cannot be used with",
        ),
        (
            &["--behind", "envoy:real", "--http", URL],
            "only nginx:real and haproxy:real are started",
        ),
        (
            &[
                "--behind",
                "nginx:real",
                "--http",
                "https://127.0.0.1:{port}/",
            ],
            "speaks plain HTTP to the instances",
        ),
        (
            &[
                "--behind",
                "nginx:real",
                "--http",
                URL,
                "--header",
                "X-Request-Id: 1",
            ],
            "leave that --header out",
        ),
        (&["--behind", "none"], "--http"),
        (&["--pre-stop", "1s", "--http", URL], "--behind"),
    ] {
        let ran = test.run(&[words, &started].concat());
        ran.refuses(2, &[said]);
    }
    assert!(!test.path().join("started").exists(), "a command has run");
}
