//! What the program says last.

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::process::describe;
use crate::record::With;
use crate::report::Group;
use crate::stage::Stage;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "exit-code",
    group: Group::Exit,
    quick: true,
    why: "Whoever started the program takes anything but 0 for a crash: restarts, alarms, failed jobs.",
    how: "The program is stopped while idle. It must end by itself with an accepted exit code. Ended by the signal \
          itself counts as 128 and its number, as a shell and a container runtime say it: 143 for SIGTERM.",
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
        (1, Some(ended)) => Some(ended),
        (1, None) => return Ok(Finding::skipped(super::NEVER_ENDS)),
        _ => {
            let run = stage.start().await?;
            let signal = run.stop();
            stage.see_end(&run, signal, With::Nobody).await
        }
    };
    let Some(ended) = ended else {
        return Ok(Finding::late(stage.never_ended()));
    };
    let code = super::code(ended.status);
    let words = describe(ended.status);
    if stage.threshold.accepts(code) {
        return Ok(
            Finding::passed(format!("{words} after {}", stage.drill.signal))
                .measured(code.to_string()),
        );
    }
    Ok(Finding::failed(format!("{words} after {}", stage.drill.signal)).measured(code.to_string()))
}
