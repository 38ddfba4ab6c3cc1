//! Ctrl-C, and again with feeling.

use std::time::Duration;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::process::Signal;
use crate::report::Group;
use crate::stage::Stage;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "int-twice-forces",
    group: Group::Signals,
    quick: false,
    why: "Whoever presses Ctrl-C a second time does not want to wait for a request that hangs.",
    how: "A request that takes two minutes is in flight. SIGINT is sent, and again half a second later. The program must be \
          gone soon after the second.",
    applies: "Needs a path that answers late, with the time in it: --slow \"/slow?ms={ms}\".",
    threshold: |_| Threshold::Time(Duration::from_secs(5)),
    hints: &[
        (
            "any",
            "count SIGINTs: the first drains, the second ends at once, with 130",
        ),
        (
            "adieu",
            "does it: the second hurries, the third ends at once",
        ),
        (
            "Node",
            "`process.on('SIGINT', ...)` with a counter and `process.exit(130)`",
        ),
        (
            "Go",
            "call `stop()` of `signal.NotifyContext` after the first SIGINT, and the second one kills",
        ),
        ("uvicorn", "forces at the second SIGINT"),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const LONG: Duration = Duration::from_secs(120);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if !stage
        .found
        .slow
        .as_ref()
        .is_some_and(|path| path.contains("{ms}"))
    {
        return Ok(Finding::skipped(super::NO_SLOW));
    }
    let run = stage.start().await?;
    let Some(request) = stage.slow(&run, LONG) else {
        return Ok(Finding::skipped(super::NO_SLOW));
    };
    let flights = match stage.hold_open(&run, &request, 1).await {
        Ok(flights) => flights,
        Err(finding) => return Ok(finding),
    };
    run.subject.signal(Signal::INT);
    if run
        .subject
        .ended_within(Duration::from_millis(500))
        .await
        .is_some()
    {
        return Ok(Finding::passed("it ended at the first SIGINT already"));
    }
    let second = run.subject.signal(Signal::INT);
    let ended = run.subject.ended_within(stage.threshold.time()).await;
    drop(flights);
    Ok(match ended {
        Some(ended) => {
            let took = show(ended.at.saturating_duration_since(second));
            Finding::passed(format!("it ended {took} after the second SIGINT")).measured(took)
        }
        None => Finding::late(format!(
            "{} after the second SIGINT it is still there, waiting for a request",
            show(stage.threshold.time())
        ))
        .shown(run.last_lines(5))
        .measured(format!("more than {}", show(stage.threshold.time()))),
    })
}
