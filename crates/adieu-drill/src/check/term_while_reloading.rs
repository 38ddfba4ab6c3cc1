//! A stop in the middle of a reload.

use std::time::Duration;

use tokio::time::sleep;

use super::{Spec, Trying, signals};
use crate::finding::Finding;
use crate::process::Signal;
use crate::report::Group;
use crate::stage::Stage;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "term-while-reloading",
    group: Group::Signals,
    quick: false,
    why: "Deployments reload and restart in one breath; a stop that arrives during a reload must not be lost.",
    how: "SIGHUP is sent, and the stop signal 20 ms later, with requests in flight. They must be answered, and the program \
          must end within the outer grace without a crash.",
    applies: "Only with --reload: for many programs SIGHUP means the end.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "reload beside the loop that hears signals, not inside it",
        ),
        (
            "adieu",
            "`service.on_reload(..)` runs beside the life cycle",
        ),
        (
            "gunicorn",
            "the arbiter handles signals one after the other; it does",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if !stage.drill.reload {
        return Ok(Finding::skipped(super::NO_RELOAD));
    }
    signals::stop_with(stage, "a stop during a reload", async |run| {
        run.subject.signal(Signal::HUP);
        sleep(Duration::from_millis(20)).await;
        run.stop()
    })
    .await
}
