//! Faults that a check must find though they hide well, and programs that it must not blame.

use crate::support::Test;

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
