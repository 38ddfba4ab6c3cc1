//! What the program says last.

use super::{Spec, Trying, race};
use crate::discover::Speaks;
use crate::finding::Finding;
use crate::process::describe;
use crate::record::{Exit, With};
use crate::report::Group;
use crate::stage::Stage;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "exit-code",
    group: Group::Exit,
    quick: true,
    why: "Whoever started the program takes anything but 0 for a crash: restarts, alarms, failed jobs.",
    how: "The program is stopped while idle and under load; the stops of all other checks count too, so this one is run \
          last. Each time it must end by itself with an accepted exit code, and not be killed after the outer grace. Ended by the signal itself counts as 128 and its \
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
            "Node",
            "`process.exit(0)` after `server.close` has called back",
        ),
        (
            "Go",
            "a `log.Fatal(server.ListenAndServe())` ends with 1: leave out http.ErrServerClosed",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let ended = match (stage.run, stage.found.idle_end) {
        (1, Some(ended)) => ended,
        (1, None) => return Ok(stage.killed_when_idle()),
        _ => {
            let run = stage.start().await?;
            let signal = run.stop();
            match stage.see_end(&run, signal, With::Nobody).await {
                Some(ended) => ended,
                None => return Ok(stage.killed(&run, With::Nobody)),
            }
        }
    };
    let exits = &stage.record.exits;
    if stage.found.speaks != Speaks::Other && !exits.iter().any(|exit| exit.with == With::Load) {
        // Whether something is lost is another check's question.
        let _ = race::once(stage, race::usual(stage)).await?;
    }
    let code = super::code(ended.status);
    let exits = &stage.record.exits;
    let bad: Vec<&Exit> = exits.iter().filter(|exit| is_bad(exit, stage)).collect();
    let Some(worst) = bad.first() else {
        return Ok(Finding::passed(format!(
            "{} after {}",
            describe(ended.status),
            stage.drill.signal
        ))
        .measured(code.to_string()));
    };
    let with = worst.with.words();
    let (words, measured) = match worst.end {
        Some((_, status)) => (
            format!("{} after {}, {with}", describe(status), stage.drill.signal),
            super::code(status).to_string(),
        ),
        None => (
            format!("it {}, {with}, and had to be killed", stage.never_ended()),
            "killed".to_owned(),
        ),
    };
    let mut finding = Finding::failed(words);
    finding.by_time = bad.iter().all(|exit| exit.end.is_none());
    Ok(finding
        .shown(bad.iter().take(5).map(|exit| told(exit)))
        .shown([format!(
            "{} of {} stops that were seen ended like this",
            bad.len(),
            exits.len()
        )])
        .measured(measured))
}

/// Whether a stop ended as none should. What is held against a stop may be told with a code; a crash is one each time.
/// One that nothing was held against and that was killed all the same had no code of its own.
fn is_bad(exit: &Exit, stage: &Stage<'_>) -> bool {
    let Some((_, status)) = exit.end else {
        return exit.with != With::Hold;
    };
    let accepted = stage.threshold.accepts(super::code(status));
    match exit.with {
        With::Nobody | With::Load => !accepted,
        With::Hold => super::is_crash(status, stage.drill.signal.raw()) && !accepted,
    }
}

/// `keepalive-race stopped it under load: exit code 3 after 120 ms`.
fn told(exit: &Exit) -> String {
    let who = match exit.check {
        "" => "the look before the first check",
        check => check,
    };
    let how = match exit.end {
        Some((took, status)) => format!("{} after {}", describe(status), show(took)),
        None => "killed".to_owned(),
    };
    format!("{who} stopped it {}: {how}", exit.with.words())
}
