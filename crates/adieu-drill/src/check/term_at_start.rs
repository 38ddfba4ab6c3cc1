//! A stop before the start is over.

use std::time::Duration;

use tokio::time::sleep;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::describe;
use crate::report::Group;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "term-at-start",
    group: Group::Signals,
    quick: false,
    why: "A rollout that is taken back stops programs that have hardly started; a signal that is swallowed then is a \
          program that cannot be stopped.",
    how: "The program is started and gets the stop signal 0 to 200 ms later, in steps. Each time it must end in time: by \
          itself, or by the signal while it has no handler yet. A crash is a failure.",
    applies: "Always.",
    threshold: |drill| Threshold::Time(drill.grace),
    hints: &[
        (
            "any",
            "install the handlers first thing in main, before connections, migrations and imports",
        ),
        (
            "adieu",
            "does it before `setup` runs; what `setup` opened is closed",
        ),
        (
            "Python",
            "imports take a second: `signal.signal` before the heavy ones, or nothing at all until then",
        ),
        (
            "Go",
            "`signal.Notify` in main before anything else; a channel without a buffer loses signals",
        ),
        (
            "shell scripts",
            "`exec` the program; a shell that waits for a child holds the signal back",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const STEPS: [u64; 10] = [0, 2, 5, 10, 20, 40, 80, 120, 160, 200];

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle());
    }
    let limit = cx.threshold.time();
    let mut slowest = Duration::ZERO;
    for (step, number) in STEPS.into_iter().zip(0..) {
        cx.step(number, &format!("{step} ms after the start"));
        let run = cx.launch()?;
        sleep(Duration::from_millis(step)).await;
        let late = run.process.started.elapsed();
        let signal = run.stop();
        let Some(ended) = run.process.ended_within(limit).await else {
            return Ok(Finding::late(format!(
                "stopped {} after its start, it was still there {} later",
                show(late),
                show(limit)
            ))
            .shown(run.last_lines(5))
            .measured(format!("more than {}", show(limit))));
        };
        cx.note_end(signal, Some(ended));
        if super::is_crash(ended.status, run.stop_signal()) {
            return Ok(Finding::failed(format!(
                "stopped {} after its start, it crashed: {}",
                show(late),
                describe(ended.status)
            ))
            .shown(run.last_lines(10)));
        }
        slowest = slowest.max(ended.at.saturating_duration_since(signal));
        run.process.kill().await;
    }
    Ok(Finding::passed(format!(
        "stopped {} times within its first 200 ms, it always ended, the slowest in {}",
        STEPS.len(),
        show(slowest)
    ))
    .measured(show(slowest)))
}
