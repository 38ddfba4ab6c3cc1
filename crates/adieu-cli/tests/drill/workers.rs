//! Programs without an address: all that there is to see of them is how they end.

use crate::support::{Judged, Test};

/// Cleans up for so many seconds after the signal. The next one kills it, or makes it give up, if an argument says so.
const WORKER: &str = r#"
import os, signal, sys, time
stopping = False
def hang(*_):
    while True:
        signal.pause()
def give_up(*_):
    # An interpreter that ends in order gives its handlers back first, and the next signal of a storm would kill it.
    os.write(2, b"interrupted\n")
    os._exit(1)
def stop(*_):
    global stopping
    stopping = True
    after = {"killed": signal.SIG_DFL, "gives-up": give_up, "hangs": hang}.get(sys.argv[1], stop)
    signal.signal(signal.SIGTERM, after)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while not stopping:
    time.sleep(0.02)
until = time.monotonic() + float(sys.argv[3])
while (left := until - time.monotonic()) > 0:
    time.sleep(left)
sys.exit(int(sys.argv[2]))
"#;

fn judge(fault: &str, code: &str, seconds: &str) -> Judged {
    judge_within("30s", fault, code, seconds)
}

fn judge_within(grace: &str, fault: &str, code: &str, seconds: &str) -> Judged {
    let test = Test::new().file("worker.py", WORKER);
    let checks = [
        "--ready-line",
        "ready",
        "--grace",
        grace,
        "--check",
        "term-twice,signal-storm",
    ];
    let command = ["--json", "--", "python3", "worker.py", fault, code, seconds];
    let ran = test.run(&[&checks[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

/// What it was cleaning up is lost, and its end is the only one who tells.
#[test]
fn a_second_signal_that_ends_the_clean_up_is_found_by_the_end() {
    for (fault, end) in [("killed", "SIGTERM"), ("gives-up", "exit code 1")] {
        let judged = judge(fault, "0", "1");
        for id in ["term-twice", "signal-storm"] {
            judged.is(id, "failed", &[end, "at a single signal: exit code 0"]);
        }
    }
}

/// A code that it ends with anyhow says nothing about the second signal, and neither does a signal that met Python when
/// it had given its handlers back.
#[test]
fn an_end_as_after_a_single_signal_is_none_of_the_second() {
    for (code, seconds) in [("0", "1"), ("3", "1"), ("0", "0")] {
        let judged = judge("", code, seconds);
        for id in ["term-twice", "signal-storm"] {
            judged.is(id, "passed", &["it ended in"]);
        }
    }
}

/// No client was connected, so none held it; and the stops that ended are not all there were.
#[test]
fn a_stop_without_an_end_is_told_as_it_was() {
    let judged = judge_within("3s", "hangs", "0", "0.5");
    let words = ["had to be killed", "stopped while idle: still there"];
    judged.is("term-twice", "failed", &words);
    let advice = &judged.0["recommendation"];
    // A check that failed while the drill was short of the processor is run again, and that stop has no end either.
    assert!(advice["endless"].as_u64() >= Some(2), "{advice}");
}

/// Does jobs from a file, each in half a second, and writes what it has done to another. At SIGTERM it finishes the
/// job that it does; with `drops` it forgets it. A child helps it, without which a job cannot be finished.
const QUEUE: &str = r#"
import os, signal, subprocess, sys, time
DIRECTORY, MANNER = sys.argv[1], sys.argv[2]
stopping = False
def stop(*_):
    global stopping
    stopping = True
    if MANNER == "drops":
        sys.exit(0)
def read(name):
    path = os.path.join(DIRECTORY, name)
    return open(path).read().split() if os.path.exists(path) else []
def take():
    todo = [job for job in read("todo") if job not in read("taken")]
    if todo:
        with open(os.path.join(DIRECTORY, "taken"), "a") as file:
            file.write(todo[0] + "\n")
        return todo[0]
signal.signal(signal.SIGTERM, stop)
helper = subprocess.Popen(["sleep", "600"], start_new_session=MANNER != "needs-helper")
print("ready", flush=True)
while not stopping:
    job = take()
    until = time.monotonic() + (0.5 if job else 0.02)
    while (left := until - time.monotonic()) > 0:
        time.sleep(left)
    if job and helper.poll() is None:
        with open(os.path.join(DIRECTORY, "done"), "a") as file:
            file.write(job + "\n")
helper.kill()
"#;

fn judge_fed(manner: &str, checks: &str) -> Judged {
    let test = Test::new().file("queue.py", QUEUE);
    let feed = "for n in 1 2 3; do echo $$-$n; done | tee -a {dir}/todo";
    let words = [
        "--ready-line",
        "ready",
        "--grace",
        "5s",
        "--check",
        checks,
        "--json",
    ];
    let data = ["--feed", feed, "--ledger", "cat {dir}/done"];
    let command = ["--", "python3", "queue.py", "{dir}", manner];
    let ran = test.run(&[&words[..], &data, &command].concat());
    Judged(serde_json::from_str(&ran.out()).unwrap_or_else(|_| panic!("{}", ran.err())))
}

/// The job in flight at the signal is the one that is lost or kept.
#[test]
fn the_work_of_a_worker_is_followed_over_a_stop() {
    let checks = "inflight-finishes,group-signal";
    let judged = judge_fed("finishes", checks);
    judged.is(
        "inflight-finishes",
        "passed",
        &["all 3 entries", "done after a restart"],
    );
    judged.is("group-signal", "passed", &["lost none of 3 entries"]);
    let judged = judge_fed("drops", checks);
    judged.is(
        "inflight-finishes",
        "failed",
        &["1 of 3 entries", "not done"],
    );
    judged.is("group-signal", "skipped", &["at a single signal already"]);
    // One signal is fine; the one to the group takes the helper along.
    let judged = judge_fed("needs-helper", checks);
    judged.is("inflight-finishes", "passed", &["all 3 entries"]);
    judged.is(
        "group-signal",
        "failed",
        &["were lost to a signal to the whole group"],
    );
}

/// A pass without work says so.
#[test]
fn a_worker_without_work_is_said_to_have_had_none() {
    let judged = judge("", "0", "0");
    judged.is("term-twice", "passed", &["no work in flight", "--feed"]);
    let test = Test::new();
    let words = [
        "--ready-line",
        "x",
        "--feed",
        "true",
        "--",
        "python3",
        "hello.py",
    ];
    test.run(&words)
        .refuses(2, &["--ledger COMMAND", "give both"]);
}
