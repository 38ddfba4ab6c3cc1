//! A second Ctrl-C forces the exit.

use std::time::Duration;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::Signal;
use crate::report::Group;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "int-twice-forces",
    group: Group::Signals,
    quick: false,
    why: "A user who presses Ctrl-C a second time does not want to wait for a request that hangs.",
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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const HANG_TIME: Duration = Duration::from_secs(120);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
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
    let requests = match cx.hold_open(&run, &request, 1).await {
        Ok(requests) => requests,
        Err(finding) => return Ok(finding),
    };
    run.process.signal(Signal::INT);
    if run
        .process
        .ended_within(Duration::from_millis(500))
        .await
        .is_some()
    {
        return Ok(Finding::passed("it ended at the first SIGINT already"));
    }
    let second = run.process.signal(Signal::INT);
    let ended = run.process.ended_within(cx.threshold.time()).await;
    drop(requests);
    Ok(match ended {
        Some(ended) => {
            let took = show(ended.at.saturating_duration_since(second));
            Finding::passed(format!("it ended {took} after the second SIGINT")).measured(took)
        }
        None => Finding::late(format!(
            "{} after the second SIGINT it is still there, waiting for a request",
            show(cx.threshold.time())
        ))
        .shown(run.last_lines(5))
        .measured(format!("more than {}", show(cx.threshold.time()))),
    })
}
