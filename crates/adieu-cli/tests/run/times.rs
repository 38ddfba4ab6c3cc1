//! The time of a stop, as the command and the platform see it.

use std::process::Command;

use crate::support::{built, run_in};

/// What a command finds in its environment: its grace and its lame duck.
fn told(variables: &[(&str, &str)], options: &[&str]) -> String {
    let script = "echo ${ADIEU_GRACE-none} ${ADIEU_LAME_DUCK-none}";
    let (code, out, said) = run_in(variables, options, &["sh", "-c", script]);
    assert_eq!(code, 0, "{said}");
    out.trim_end().to_owned()
}

/// A service of the library ends by itself before it is killed, and does not wait for what has been waited for.
#[test]
fn a_service_knows_its_time() {
    assert_eq!(told(&[], &["--grace", "20s"]), "19000ms 0s");
    let pre_stop = ["--grace", "20s", "--pre-stop", "5s"];
    assert_eq!(told(&[], &pre_stop), "14000ms 0s");
    assert_eq!(told(&[], &["--grace", "800ms"]), "400ms 0s");
    // Nothing has waited, and the queue is not drained: a lame-duck period of the command is its own.
    let plain = ["--grace", "20s", "--no-cloak"];
    assert_eq!(told(&[], &plain), "19000ms none");
}

/// Where clients come for a while after the stop has begun, `adieu run` waits for them.
#[test]
fn in_kubernetes_there_is_a_pre_stop() {
    let kubernetes = [("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(told(&kubernetes, &["--grace", "28s"]), "22000ms 0s");
    assert_eq!(told(&kubernetes, &["--grace", "8s"]), "5000ms 0s");
    let none = ["--grace", "28s", "--pre-stop", "0s"];
    assert_eq!(told(&kubernetes, &none), "27000ms 0s");
}

/// In the library, where the variable wins.
#[test]
fn a_lame_duck_comes_from_the_environment() {
    for (value, words) in [
        ("1h", "leaves nothing of a grace of 20.0 s"),
        ("soon", "ADIEU_LAME_DUCK: `soon` is not a duration"),
    ] {
        let output = Command::new(built("example-web"))
            .args(["--listen", "127.0.0.1:0"])
            .envs([("ADIEU_LAME_DUCK", value), ("ADIEU_GRACE", "20s")])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

/// One variable for both is our time; beside an option it is meant for the command.
#[test]
fn what_was_set_by_hand_is_left_alone() {
    let grace = ("ADIEU_GRACE", "9s");
    assert_eq!(told(&[grace], &[]), "8000ms 0s");
    assert_eq!(told(&[grace], &["--grace", "20s"]), "9s 0s");
    let duck = ("ADIEU_LAME_DUCK", "2s");
    assert_eq!(told(&[duck], &["--grace", "20s"]), "19000ms 2s");
    let (code, _, said) = run_in(&[("ADIEU_GRACE", "soon")], &[], &["true"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("ADIEU_GRACE: `soon` is not a duration"),
        "{said}"
    );
}

#[test]
fn a_grace_that_the_platform_does_not_grant_is_warned_of() {
    let kubernetes = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let warned = |variables: &[(&str, &str)], options: &[&str]| {
        let (_, _, said) = run_in(variables, options, &["true"]);
        said.lines()
            .find(|line| line.contains("a stop may take"))
            .map(ToOwned::to_owned)
    };
    let forty = ["--grace", "40s", "--quiet"];
    assert_eq!(
        warned(&[kubernetes], &forty).as_deref(),
        Some(
            "adieu: a stop may take 40.0 s, but kubernetes kills after 30.0 s: shorten the grace, or make \
             terminationGracePeriodSeconds longer and say so with ADIEU_KILL_AFTER"
        )
    );
    let long = ("ADIEU_KILL_AFTER", "60s");
    assert_eq!(warned(&[kubernetes, long], &forty), None);
    assert_eq!(warned(&[kubernetes, long], &[]), None);
    let short = ("ADIEU_KILL_AFTER", "20s");
    let said = warned(&[short], &["--grace", "25s"]).expect("a warning");
    assert!(said.contains("kills after 20.0 s"), "{said}");
    // A time that was said is the measure of one that was not.
    assert_eq!(warned(&[short], &[]), None);
}
