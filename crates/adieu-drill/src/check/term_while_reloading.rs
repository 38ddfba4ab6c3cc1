//! A stop in the middle of a reload.

use std::time::Duration;

use tokio::time::sleep;

use super::{Spec, Trying, signals};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::{Signal, describe};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "term-while-reloading",
    group: Group::Signals,
    quick: false,
    why: "Deployments reload and restart in one breath; a stop that arrives during a reload must not be lost.",
    how: "SIGHUP is sent, and the stop signal 20 ms later, with requests in flight. They must be answered, and the program \
          must end within the grace period without a crash.",
    applies: "Only with --reload: for many programs SIGHUP means the end. Skipped for one that ends at a SIGHUP alone, \
              which is the matter of hup-keeps-serving.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "reload beside the loop that hears signals, not inside it",
        ),
        ("adieu", "`app.reload(..)` runs beside the life cycle"),
        (
            "gunicorn",
            "the arbiter handles signals one after the other; it does",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

/// Who has no handler is gone within so long.
const GONE_WITHOUT_HANDLER: Duration = Duration::from_millis(300);

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if !cx.drill.reload {
        return Ok(Finding::skipped(super::NO_RELOAD));
    }
    if let Some(finding) = ended_by_reload(cx).await? {
        return Ok(finding);
    }
    signals::stop_with(cx, "a stop during a reload", async |run| {
        run.process.signal(Signal::HUP);
        sleep(Duration::from_millis(20)).await;
        run.stop()
    })
    .await
}

/// A program that ends at the reload is gone when the stop comes, and there is nothing to stop. It is a failure of
/// hup-keeps-serving, or of this check if that one is not asked.
async fn ended_by_reload(cx: &CheckContext<'_>) -> Result<Option<Finding>, crate::DrillError> {
    let run = cx.start().await?;
    run.process.signal(Signal::HUP);
    let Some(ended) = run.process.ended_within(GONE_WITHOUT_HANDLER).await else {
        return Ok(None);
    };
    let how = describe(ended.status);
    let words = format!(
        "it ended at the SIGHUP ({how}), so there was nothing left to stop; see hup-keeps-serving"
    );
    let finding = if cx.is_planned("hup-keeps-serving") {
        Finding::skipped(words)
    } else {
        Finding::failed(words)
    };
    Ok(Some(finding.shown(run.last_lines(5))))
}
