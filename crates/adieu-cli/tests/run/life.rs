//! Signals, descendants, exit codes, time.

use rustix::process::Signal;

use crate::support::{Wrapper, children, kill, run, state, until};

#[test]
fn the_exit_code_is_the_commands() {
    assert_eq!(run(&[], &["true"]).0, 0);
    assert_eq!(run(&[], &["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(run(&[], &["sh", "-c", "kill -9 $$"]).0, 128 + 9);
    // What it prints and reads is its own affair.
    let (code, out, err) = run(&["--quiet"], &["echo", "hello"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "hello\n", ""));
}

// It waits for one child: while a shell starts one after the other, dash loses signals on a busy machine.
const TELLS: &str = "trap 'echo got usr1' USR1; trap 'echo got hup' HUP; trap 'echo got quit; exit 3' QUIT; \
                     trap 'echo got term; exit 4' TERM; trap 'echo got int; exit 5' INT; \
                     sleep 1000 & echo ready; while :; do wait; done";

#[tokio::test]
async fn signals_are_passed_on() {
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", TELLS]);
    wrapper.line("ready").await;
    for (signal, name) in [(Signal::USR1, "usr1"), (Signal::HUP, "hup")] {
        wrapper.signal(signal);
        wrapper.line(&format!("got {name}")).await;
    }
    wrapper.signal(Signal::INT);
    wrapper.line("got int").await;
    assert_eq!(wrapper.code().await.0, 5);
}

/// As tini does: whatever can be caught, and does not tell of ourselves.
#[tokio::test]
async fn signals_that_few_programs_know_are_passed_on_too() {
    // Waited for, and not caught: what comes between a handler and the next pause would be slept over.
    let program = "import signal\n\
                   names = 'IO PWR VTALRM PROF XCPU XFSZ URG ALRM WINCH CONT'.split()\n\
                   rare = [getattr(signal, 'SIG' + name) for name in names]\n\
                   signal.pthread_sigmask(signal.SIG_BLOCK, rare)\n\
                   print('ready', flush=True)\n\
                   while True: print('got', signal.Signals(signal.sigwait(rare)).name, flush=True)";
    let mut wrapper = Wrapper::start(&[], &["/usr/bin/python3", "-c", program]);
    wrapper.line("ready").await;
    for (signal, name) in [
        (Signal::IO, "SIGIO"),
        (Signal::POWER, "SIGPWR"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::PROF, "SIGPROF"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::URG, "SIGURG"),
        (Signal::WINCH, "SIGWINCH"),
    ] {
        wrapper.signal(signal);
        let heard = wrapper.line("got ").await;
        assert!(
            heard == name || (name == "SIGIO" && heard == "SIGPOLL"),
            "{heard}"
        );
    }
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 143);
}

#[tokio::test]
async fn a_map_says_which() {
    let options = ["--signal", "term=quit", "--signal", "usr1=hup"];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", TELLS]);
    wrapper.line("ready").await;
    wrapper.signal(Signal::USR1);
    wrapper.line("got hup").await;
    wrapper.signal(Signal::TERM);
    wrapper.line("got quit").await;
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 3);
    assert!(said.contains("adieu: SIGQUIT to sh (pid "), "{said}");
}

#[tokio::test]
async fn the_whole_group_hears_if_asked_to() {
    let inner = "trap 'echo inner; exit' USR1; echo ready; while :; do sleep 0.01; done";
    let outer = format!("trap 'echo outer' USR1; sh -c \"{inner}\" & while :; do wait; done");
    let mut wrapper = Wrapper::start(&["--group"], &["sh", "-c", &outer]);
    wrapper.line("ready").await;
    wrapper.signal(Signal::USR1);
    wrapper.line("inner").await;
    wrapper.signal(Signal::KILL);
    wrapper.end().await;
}

/// A daemon that its parent has left is ours, and we wait for it; a stop tells it too.
#[tokio::test]
async fn the_end_comes_after_the_last_descendant() {
    let daemon = "(setsid sh -c 'trap \"echo gone; exit\" TERM; echo daemon $$; while :; do sleep 0.01; done' &); exit 0";
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", daemon]);
    let pid: i32 = wrapper.line("daemon ").await.parse().unwrap();
    // The command itself has ended, and its daemon has come to us.
    let said = wrapper.says("waiting for what it left: ").await;
    assert!(said.contains(&format!("({pid})")), "{said}");
    assert!(!said.contains("guardian"), "none of theirs: {said}");
    wrapper.signal(Signal::TERM);
    wrapper.line("gone").await;
    let (code, said) = wrapper.code().await;
    assert_eq!((code, state(pid)), (0, None), "{said}");
}

/// After a failure the processes that are left get SIGTERM at once.
#[tokio::test]
async fn what_a_failed_command_leaves_is_stopped() {
    let leaves = "sh -c 'echo left $$; while :; do sleep 0.01; done' & read line; exit 9";
    let (code, out, said) = run(&[], &["sh", "-c", leaves]);
    assert_eq!(code, 9, "{said}");
    if let Some(pid) = out.strip_prefix("left ") {
        assert_eq!(state(pid.trim().parse().unwrap()), None);
    }
}

const STUBBORN: &str = "trap '' TERM INT; setsid sh -c 'trap \"\" TERM; echo other $$; while :; do sleep 0.01; done' & \
                        echo main $$; while :; do sleep 0.01; done";

#[tokio::test]
async fn who_does_not_end_in_time_is_killed_with_all_others() {
    let folder = tempfile::TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let options = ["--grace", "300ms", "--report", report.to_str().unwrap()];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", STUBBORN]);
    let other: i32 = wrapper.line("other ").await.parse().unwrap();
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!((code, state(other)), (137, None), "{said}");
    assert!(
        said.contains("300ms are over: sending SIGKILL to "),
        "{said}"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let text = report.to_string();
    assert!(text.contains("was ended by SIGKILL after"), "{text}");
    assert!(text.contains(" s user, ") && text.contains(" MB"), "{text}");
}

#[tokio::test]
async fn a_second_interrupt_hurries() {
    let mut wrapper = Wrapper::start(&["--grace", "10m"], &["sh", "-c", STUBBORN]);
    let other: i32 = wrapper.line("other ").await.parse().unwrap();
    wrapper.signal(Signal::INT);
    // Passed on, and not heard.
    wrapper.says("SIGINT to sh (pid ").await;
    wrapper.signal(Signal::INT);
    let (code, said) = wrapper.code().await;
    assert_eq!((code, state(other)), (137, None), "{said}");
    assert!(
        said.contains("second SIGINT: sending SIGKILL to every process that is left"),
        "{said}"
    );
}

const LONG_PRE_STOP: [&str; 6] = [
    "--pre-stop",
    "10m",
    "--grace",
    "20m",
    "--health",
    "127.0.0.1:0",
];

/// Before the command has got its signal, a second signal skips the wait and not the command's own end.
#[tokio::test]
async fn a_hurry_in_the_pre_stop_still_tells_the_command() {
    for (script, expected) in [(TELLS, 5), (STUBBORN, 137)] {
        let mut wrapper = Wrapper::start(&LONG_PRE_STOP, &["sh", "-c", script]);
        wrapper
            .line(if expected == 5 { "ready" } else { "other " })
            .await;
        wrapper.ready().await;
        wrapper.signal(Signal::INT);
        wrapper.says("readiness off").await;
        wrapper.signal(Signal::INT);
        wrapper.says("second SIGINT: the command has 1s").await;
        wrapper.says("SIGINT to sh (pid ").await;
        assert_eq!(wrapper.code().await.0, expected);
    }
}

#[tokio::test]
async fn the_stop_waits_for_the_pre_stop() {
    let options = ["--pre-stop", "400ms", "--health", "127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", TELLS]);
    wrapper.line("ready").await;
    // What was never ready has no client to wait for.
    wrapper.ready().await;
    let begun = std::time::Instant::now();
    wrapper.signal(Signal::TERM);
    wrapper.line("got term").await;
    assert!(begun.elapsed().as_millis() >= 400);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 4);
    let order: Vec<_> = ["stopping: sigterm", "readiness off", "SIGTERM to sh"]
        .into_iter()
        .map(|it| said.find(it))
        .collect();
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{said}"
    );
}

/// No process is left that a load balancer could send anything to.
#[tokio::test]
async fn the_pre_stop_is_not_waited_for_once_the_command_has_ended() {
    for (code, when) in [(3, "before"), (5, "while")] {
        let mut wrapper = Wrapper::start(&LONG_PRE_STOP, &["sh", "-c", TELLS]);
        wrapper.line("ready").await;
        wrapper.ready().await;
        if when == "while" {
            wrapper.signal(Signal::TERM);
            wrapper
                .says("readiness off; serving for another 600s")
                .await;
        }
        let signal = if code == 3 { Signal::QUIT } else { Signal::INT };
        let below = children(wrapper.subject.pid());
        kill(below[0], signal);
        let (ended, said) = wrapper.code().await;
        assert_eq!(ended, code, "{when}: {said}");
        assert_eq!(
            said.contains("serving for another"),
            when == "while",
            "{said}"
        );
    }
}

/// A suspended process gets the stop all the same, as under systemd; the stop does not wait until the grace period is over.
#[tokio::test]
async fn who_is_suspended_is_not_killed() {
    let script = "(setsid sleep 1000 & echo rest $!); trap 'exit 4' TERM; echo ready $$; while :; do sleep 0.01; done";
    let mut wrapper = Wrapper::start(&["--grace", "50s"], &["sh", "-c", script]);
    let rest = wrapper.line("rest ").await;
    let command = wrapper.line("ready ").await;
    for pid in [rest, command].map(|it| it.parse().unwrap()) {
        kill(pid, Signal::STOP);
        until("it is suspended", || state(pid) == Some('T'));
    }
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 4, "{said}");
    assert!(!said.contains("SIGKILL"), "{said}");
}
