//! One request that never ends does not make a stop that never ends.

use std::time::Duration;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::process::describe;
use crate::report::Group;
use crate::stage::Stage;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "hung-handler",
    group: Group::Exit,
    quick: false,
    why: "One handler that waits for something that never comes must not cost the clean-up of everything else, which a \
          SIGKILL does.",
    how: "A request that takes ten minutes is in flight when the signal comes. The program must give it up and end by \
          itself within the outer grace.",
    applies: "Needs a path that answers late, with the time in it: --slow \"/slow?ms={ms}\".",
    threshold: |drill| Threshold::Time(drill.grace),
    hints: &[
        (
            "any",
            "give the drain a deadline shorter than the platform's, and close what is left",
        ),
        (
            "adieu",
            "`service.grace(duration)`; what is cut is named in the report",
        ),
        (
            "uvicorn",
            "`--timeout-graceful-shutdown SECONDS`; there is no limit without it",
        ),
        (
            "Go",
            "`context.WithTimeout` around `server.Shutdown`, and `server.Close` after it",
        ),
        (
            "Node",
            "`setTimeout(() => server.closeAllConnections(), ms).unref()`",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const FOR_EVER: Duration = Duration::from_secs(600);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if stage.found.idle_stop.is_none() {
        return Ok(stage.killed_when_idle());
    }
    if !stage
        .found
        .slow
        .as_ref()
        .is_some_and(|path| path.contains("{ms}"))
    {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = stage.start().await?;
    let Some(request) = stage.slow(&run, FOR_EVER) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let flights = match stage.hold_open(&run, &request, 2).await {
        Ok(flights) => flights,
        Err(finding) => return Ok(finding),
    };
    let signal = run.stop();
    let ended = run.subject.ended_within(stage.threshold.time()).await;
    drop(flights);
    stage.note_end(signal, ended);
    Ok(match ended {
        Some(ended) => {
            let took = show(ended.at.saturating_duration_since(signal));
            Finding::passed(format!(
                "it gave the request up and ended after {took}: {}",
                describe(ended.status)
            ))
            .measured(took)
        }
        None => {
            stage.note_endless();
            Finding::late(format!(
                "a request that hangs holds it for more than {}",
                show(stage.threshold.time())
            ))
            .shown(run.last_lines(5))
            .measured(format!("more than {}", show(stage.threshold.time())))
        }
    })
}
