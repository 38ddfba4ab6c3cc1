//! Programs that nobody can connect to: all that there is to see of them is how they end.

use crate::support::{Judged, Test};

/// Cleans up for so many seconds after the signal. The next one kills it, or makes it give up, if it is told so.
const WORKER: &str = r#"
import signal, sys, time
stopping = False
def hang(*_):
    while True:
        signal.pause()
def give_up(*_):
    sys.exit("interrupted")
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

/// Nobody was connected, so nobody held it; and the stops that ended are not all there were.
#[test]
fn a_stop_without_an_end_is_told_as_it_was() {
    let judged = judge_within("3s", "hangs", "0", "0.5");
    let words = ["had to be killed", "stopped while idle: still there"];
    judged.is("term-twice", "failed", &words);
    let advice = &judged.0["recommendation"];
    assert_eq!(advice["endless"], 2, "{advice}");
}
