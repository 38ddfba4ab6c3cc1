//! One request that never ends does not make a stop that never ends.

use std::time::Duration;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::describe;
use crate::report::Group;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "hung-handler",
    group: Group::Exit,
    quick: false,
    why: "One handler that waits for something that never comes must not cost the clean-up of everything else, which a \
          SIGKILL does.",
    how: "A request that takes ten minutes is in flight when the signal comes. The program must give it up and end by \
          itself within the grace period.",
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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const HANG_TIME: Duration = Duration::from_secs(600);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle());
    }
    if !cx
        .capabilities
        .slow
        .as_ref()
        .is_some_and(|path| path.contains("{ms}"))
    {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = cx.start().await?;
    let Some(request) = cx.slow(&run, HANG_TIME) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let requests = match cx.hold_open(&run, &request, cx.at_once(2)).await {
        Ok(requests) => requests,
        Err(finding) => return Ok(finding),
    };
    let signal = run.stop();
    let ended = run.process.ended_within(cx.threshold.time()).await;
    drop(requests);
    cx.note_end(signal, ended);
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
            cx.note_endless();
            Finding::late(format!(
                "a request that hangs holds it for more than {}",
                show(cx.threshold.time())
            ))
            .shown(run.last_lines(5))
            .measured(format!("more than {}", show(cx.threshold.time())))
        }
    })
}
