//! Workers with a ledger: what is lost, done twice or cut is found, and a count that is not as said gives no verdict.

use std::fs;

use serde_json::Value;

use crate::support::{Judged, Ran, Test};

const QUEUE: &str = include_str!("job_queue.py");
const ENQUEUE: &str = "python3 job_queue.py enqueue {dir}/q {from} {to}";
const DONE: &str = "python3 job_queue.py done {dir}/q";

/// Four batches of six jobs: one in peace, and one for each stop.
const SIZE: [&str; 8] = [
    "--jobs", "24", "--stops", "3", "--lease", "2s", "--seed", "7",
];

fn queue() -> Test {
    Test::new().file("job_queue.py", QUEUE)
}

fn run(test: &Test, options: &[&str], done: &str, manner: &str) -> Ran {
    let commands = [
        "--enqueue",
        ENQUEUE,
        "--done",
        done,
        "--ready-line",
        "ready",
    ];
    let worker = [
        "--json",
        "--",
        "python3",
        "job_queue.py",
        "work",
        "{dir}/q",
        manner,
        "6",
        "3",
    ];
    test.run(&[&SIZE[..], &commands, options, &worker].concat())
}

fn judge(options: &[&str], manner: &str) -> Judged {
    let ran = run(&queue(), options, DONE, manner);
    let report: Value = serde_json::from_str(&ran.out())
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out(), ran.err()));
    assert_eq!(ran.code(), Some(i32::from(report["verdict"] == "failed")));
    Judged(report)
}

const ONE: &[&str] = &["--workers", "1"];

fn all_passed(judged: &Judged, but: &[&str]) {
    let checks = judged.0["checks"].as_array().expect("checks");
    assert_eq!(checks.len(), 6, "{}", judged.0);
    for check in checks {
        let id = check["id"].as_str().expect("an id");
        assert!(
            check["outcome"] != "failed" || but.contains(&id),
            "{check:#}"
        );
    }
}

#[test]
fn a_worker_that_finishes_its_job_loses_and_doubles_nothing() {
    for kill in [&["--workers", "2"][..], &["--workers", "2", "--kill"]] {
        let judged = judge(kill, "careful");
        all_passed(&judged, &[]);
        let jobs = &judged.0["jobs"];
        assert_eq!(
            (&jobs["asked"], &jobs["lost"], &jobs["twice"]),
            (&24.into(), &0.into(), &0.into())
        );
        let stops = jobs["stops"].as_array().expect("stops");
        assert_eq!(stops.len(), 3, "{jobs:#}");
        let killed = stops.iter().filter(|it| it["signal"] == "SIGKILL").count();
        assert_eq!(killed > 0, kill.len() > 2, "{jobs:#}");
        assert_eq!(judged.0["seed"], 7);
    }
}

/// What it has taken out of the queue dies with it.
#[test]
fn a_worker_that_loses_the_job_in_flight_is_caught() {
    let judged = judge(ONE, "forgets");
    all_passed(&judged, &["jobs-lost", "jobs-in-flight"]);
    judged.is(
        "jobs-lost",
        "failed",
        &[
            "of 24 jobs lost over 3 stops",
            "never done: ",
            "w1-2 had begun job",
        ],
    );
    judged.is("jobs-in-flight", "failed", &["w1-3 ended"]);
    assert!(judged.0["jobs"]["lost"].as_u64() >= Some(2), "{}", judged.0);
}

/// It has done the job and is stopped before it says so to the queue, which gives it to the next.
#[test]
fn a_worker_that_does_a_job_again_after_a_stop_is_caught() {
    let judged = judge(ONE, "doubles");
    all_passed(&judged, &["jobs-twice"]);
    judged.is(
        "jobs-twice",
        "failed",
        &["jobs done more than once", "times: job"],
    );
}

#[test]
fn a_job_that_is_cut_and_waits_for_its_lease_is_told() {
    let judged = judge(ONE, "gives-up");
    all_passed(&judged, &["jobs-in-flight"]);
    judged.is(
        "jobs-in-flight",
        "failed",
        &["jobs in flight", "without job"],
    );
    judged.is("jobs-wait", "passed", &["was begun again"]);
    assert!(judged.0["jobs"]["longest_wait_ms"].is_number());
    let judged = judge(
        &["--workers", "1", "--threshold", "jobs-wait=0ms"],
        "gives-up",
    );
    judged.is("jobs-lost", "passed", &["0 of 24"]);
}

#[test]
fn a_worker_that_does_not_end_is_killed_and_told() {
    let judged = judge(&["--workers", "1", "--grace", "300ms"], "deaf");
    all_passed(&judged, &["jobs-exit", "jobs-in-flight"]);
    judged.is(
        "jobs-exit",
        "failed",
        &["3 of 3 stopped workers", "got SIGKILL"],
    );
}

#[test]
fn a_lease_that_is_shorter_than_a_job_is_found() {
    let judged = judge(&["--workers", "2"], "short-lease");
    judged.is("jobs-two-at-once", "failed", &["began it", "still at it"]);
}

/// Numbers alone say what was lost and nothing about when.
#[test]
fn a_ledger_of_numbers_is_judged_as_far_as_it_goes() {
    let test = queue();
    let ran = run(
        &test,
        &["--html", "r.html"],
        &format!("{DONE} numbers"),
        "careful",
    );
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    all_passed(&judged, &[]);
    for id in ["jobs-in-flight", "jobs-two-at-once", "jobs-wait"] {
        judged.is(id, "skipped", &["ADIEU_DRILL_WORKER"]);
    }
    let page = fs::read_to_string(test.path().join("r.html")).expect("a page");
    assert!(page.contains("Stops of workers"));
    assert!(page.contains("24 jobs enqueued, 2 workers at a time, 3 stops"));
}

/// An error before the first stop is not a fault of a stop.
#[test]
fn commands_that_do_not_do_what_they_say_end_it_with_a_clear_line() {
    let work = [
        "python3",
        "job_queue.py",
        "work",
        "{dir}/q",
        "careful",
        "6",
        "3",
    ];
    let careful = |enqueue: &str, done: &str, words: &[&str]| {
        let test = queue();
        let commands = ["--enqueue", enqueue, "--done", done, "--within", "20s"];
        let all = [&SIZE[..], &commands, &["--"], &work].concat();
        test.run(&all).refuses(4, words);
    };
    careful(
        "exit 3; echo {from} {to}",
        DONE,
        &["--enqueue `exit 3", "exit code 3"],
    );
    let other = ENQUEUE.replace("{from} {to}", "$(({from} + 1)) $(({to} + 1))");
    careful(
        &other,
        DONE,
        &["job 2 was never enqueued; there are jobs 1 to 1 so far"],
    );
    let twice = format!("{ENQUEUE} && {ENQUEUE}");
    careful(
        &twice,
        DONE,
        &[
            "2 times, before the first stop",
            "does --enqueue enqueue it twice",
        ],
    );
    careful(
        ENQUEUE,
        "echo hello",
        &["--done `echo hello`: line 1, `hello`", "number of a job"],
    );
    careful(
        ENQUEUE,
        "echo 3",
        &["job 3 is done before any job was enqueued"],
    );
    careful(
        ENQUEUE,
        "cat {dir}/none",
        &["asked before the first job", "ends with 0"],
    );
    careful(ENQUEUE, "yes", &["prints more than 64 MB"]);
}

#[test]
fn a_command_that_never_ends_is_ended() {
    let done = [
        "--enqueue",
        ENQUEUE,
        "--done",
        "sleep 600",
        "--within",
        "300ms",
    ];
    let worker = ["--", "sleep", "600"];
    let ran = queue().run(&[&SIZE[..], &done, &worker].concat());
    ran.refuses(4, &["--done `sleep 600` did not end in 300 ms"]);
    let enqueue = "sleep 600; echo {from} {to}";
    let commands = ["--enqueue", enqueue, "--done", "true", "--within", "3s"];
    let ran = queue().run(&[&SIZE[..], &commands, &worker].concat());
    ran.refuses(
        4,
        &["--enqueue `sleep 600; echo 1 1` did not end in 3.00 s"],
    );
}

#[test]
fn workers_that_do_not_work_are_no_verdict() {
    let commands = ["--enqueue", ENQUEUE, "--done", DONE, "--lease", "1ms"];
    for (worker, words) in [
        (&["--", "true"][..], "ended"),
        (&["--", "no-such-worker"], "there is no such command"),
        // It lives and does nothing.
        (
            &["--", "sleep", "600"],
            "1 to 1 these were never done, though no worker was stopped: 1;",
        ),
    ] {
        let size = ["--jobs", "24", "--stops", "3"];
        let ran = queue().run(&[&size[..], &commands, worker].concat());
        ran.refuses(4, &[words]);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let test = queue();
    let both = ["--enqueue", ENQUEUE, "--done", DONE];
    for (words, said) in [
        (&["--jobs", "24", "--", "true"][..], "--enqueue"),
        (
            &["--jobs", "24", "--enqueue", ENQUEUE, "--", "true"],
            "--done",
        ),
        (
            &["--workers", "3", "--ready-line", "x", "--", "true"],
            "--jobs",
        ),
    ] {
        test.run(words).refuses(2, &[said]);
    }
    for (words, said) in [
        (
            &["--jobs", "5", "--", "true"][..],
            "--jobs: at least 22 for 10 stops",
        ),
        (
            &[
                "--jobs",
                "50",
                "--http",
                "http://127.0.0.1:{port}/",
                "--",
                "true",
            ],
            "--http",
        ),
        (&["--jobs", "50"], "no program"),
        (
            &["--jobs", "50", "--threshold", "exit-code=1", "--", "true"],
            "not a check of --jobs",
        ),
    ] {
        test.run(&[&both, words].concat()).refuses(2, &[said]);
    }
    let list = test.run(&["--explain", "jobs-lost"]);
    assert!(list.out().contains("task_acks_late"), "{}", list.out());
}
