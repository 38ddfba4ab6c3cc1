//! What the program says last.

use std::process::ExitStatus;

use super::{Spec, Trying, race};
use crate::capabilities::Speaks;
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::{describe, ended_by};
use crate::report::Group;
use crate::stop_log::{Exit, LoadKind};
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "exit-code",
    group: Group::Exit,
    quick: true,
    why: "A supervisor takes anything but 0 for a crash: restarts, alarms, failed jobs.",
    how: "The program is stopped while idle and under load; the stops of all other checks count too, so this one is run \
          last. Each time it must end by itself with an accepted exit code, and not be killed after the grace period. Ended by the signal itself counts as 128 and its \
          number, as a shell and a container runtime say it: 143 for SIGTERM. Where a check holds something against the \
          end, the program may say so with a code of its own; it must not crash.",
    applies: "Always.",
    threshold: |_| Threshold::Codes(vec![0]),
    hints: &[
        (
            "any",
            "catch the signal, stop, and return 0 from main; if ending by the signal is what you want (systemd takes \
                 it for clean, docker and Kubernetes Jobs do not), accept it: --threshold exit-code=0,143",
        ),
        (
            "uvicorn",
            "raises the signal again after its shutdown, which makes 143: accept it, or start it from code",
        ),
        (
            "Python",
            "`sys.exit(0)` at the end; an uncaught KeyboardInterrupt is 130",
        ),
        (
            "Java",
            "a JVM that runs its hooks and ends at SIGTERM ends with 143: accept it",
        ),
        (
            "shell script",
            "`trap` the signal, end what was started, and `exit 0`",
        ),
        (
            "Node",
            "`process.exit(0)` after `server.close` has called back",
        ),
        (
            "Go",
            "a `log.Fatal(server.ListenAndServe())` ends with 1: leave out http.ErrServerClosed",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let ended = match (cx.run, cx.capabilities.idle_end) {
        (1, Some(ended)) => ended,
        (1, None) => return Ok(cx.killed_when_idle()),
        _ => {
            let run = cx.start().await?;
            let signal = run.stop();
            match cx.see_end(&run, signal, LoadKind::Idle).await {
                Some(ended) => ended,
                None => return Ok(cx.killed(&run, LoadKind::Idle)),
            }
        }
    };
    let exits = &cx.log.exits;
    if cx.capabilities.speaks != Speaks::Other
        && !exits.iter().any(|exit| exit.with == LoadKind::Load)
    {
        // Whether something is lost is another check's question.
        let _ = race::once(cx, race::usual(cx)).await?;
    }
    let code = super::code(ended.status);
    let exits = &cx.log.exits;
    let bad: Vec<&Exit> = exits.iter().filter(|exit| is_bad(exit, cx)).collect();
    let Some(worst) = bad.first() else {
        return Ok(Finding::passed(format!(
            "{}, stopped by {}",
            said(ended.status, cx),
            cx.drill.signal
        ))
        .measured(code.to_string()));
    };
    let with = worst.with.words();
    let (words, measured) = match worst.end {
        Some((_, status)) => (
            format!(
                "{}, stopped {with} by {}",
                said(status, cx),
                cx.drill.signal
            ),
            super::code(status).to_string(),
        ),
        None => (
            format!("it {}, {with}, and had to be killed", cx.never_ended()),
            "killed".to_owned(),
        ),
    };
    let mut finding = Finding::failed(words);
    finding.by_time = bad.iter().all(|exit| exit.end.is_none());
    let ended_so = |exit: &&Exit| code_of(exit) == code_of(worst);
    let alike = exits.iter().filter(ended_so).count();
    let held = exits.iter().filter(ended_so);
    let held = held.filter(|exit| exit.with == LoadKind::Hold).count();
    let allowed = match held {
        0 => String::new(),
        some => format!(
            "; {some} of them with a client that holds it, where a code of its own would be allowed"
        ),
    };
    Ok(finding
        .shown(bad.iter().take(5).map(|exit| told(exit)))
        .shown([format!(
            "{alike} of {} stops that were seen ended like this{allowed}",
            exits.len()
        )])
        .measured(measured))
}

/// `exit code 9`, or that the stop signal itself ended it, which a shell says as a code.
fn said(status: ExitStatus, cx: &CheckContext<'_>) -> String {
    if ended_by(status) == Some(cx.drill.signal.raw().as_raw()) {
        return format!("no exit code of its own ({})", super::code(status));
    }
    describe(status)
}

fn code_of(exit: &Exit) -> Option<i32> {
    exit.end.map(|(_, status)| super::code(status))
}

/// Whether a stop ended as none should. What is held against a stop may be told with a code; a crash is one each time.
/// One that nothing was held against and that was killed all the same had no code of its own.
fn is_bad(exit: &Exit, cx: &CheckContext<'_>) -> bool {
    let Some((_, status)) = exit.end else {
        return exit.with != LoadKind::Hold;
    };
    let accepted = cx.threshold.accepts(super::code(status));
    match exit.with {
        LoadKind::Idle | LoadKind::Load | LoadKind::Work => !accepted,
        LoadKind::Hold => super::is_crash(status, cx.drill.signal.raw()) && !accepted,
    }
}

/// `keepalive-race stopped it under load: exit code 3 after 120 ms`.
fn told(exit: &Exit) -> String {
    let how = match exit.end {
        Some((took, status)) => format!("{} after {}", describe(status), show(took)),
        None => "killed".to_owned(),
    };
    let with = exit.with.words();
    match exit.check {
        "" => format!("the first stop, {with}, before any check: {how}"),
        check => format!("{check} stopped it {with}: {how}"),
    }
}
