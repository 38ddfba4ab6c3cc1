//! No descendant outlives the program.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::report::Group;
use crate::stop_log::LoadKind;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "no-orphans",
    group: Group::Exit,
    quick: true,
    why: "A worker that outlives its parent goes on holding ports, locks and memory, without a supervisor that knows of it.",
    how: "The program has served requests and is stopped. Once its process is gone, every descendant must be too, whichever \
          group or session it went to, forked once or twice.",
    applies: "Always, where there is a /proc.",
    threshold: |_| Threshold::Time(Duration::from_secs(2)),
    hints: &[
        (
            "any",
            "wait for every child before the end; in a container let an init (`docker run --init`) reap what is left",
        ),
        (
            "Python multiprocessing",
            "`daemon=True` processes are killed at the end, others are waited for; \
                                    `subprocess.Popen` is neither",
        ),
        (
            "Node",
            "`child.kill()` for every child, and wait for its `exit`; `detached: true` outlives you",
        ),
        (
            "Go",
            "`exec.CommandContext` with a `Cancel` that sends SIGTERM, and `cmd.Wait`",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.idle_stop.is_none() {
        return Ok(cx.killed_when_idle());
    }
    let run = cx.start().await?;
    run.let_arrive().await;
    let before = run.process.descendants().await;
    let signal = run.stop();
    let Some(ended) = cx.see_end(&run, signal, LoadKind::Idle).await else {
        return Ok(cx.killed(&run, LoadKind::Idle));
    };
    let limit = ended.at + cx.threshold.time();
    let left = loop {
        let left = run.process.descendants().await;
        if left.is_empty() || Instant::now() > limit {
            break left;
        }
        // The kernel does not notify us of the end of another process's child.
        sleep(Duration::from_millis(20)).await;
    };
    if left.is_empty() {
        return Ok(Finding::passed(match before.len() {
            0 => "it had no other processes".to_owned(),
            1 => "its one other process is gone".to_owned(),
            some => format!("all its {some} other processes are gone"),
        })
        .measured("0 left"));
    }
    let names = left
        .iter()
        .map(|one| format!("{} (process {})", one.name, one.pid));
    Ok(Finding::late(format!(
        "{} processes are left {} after its end",
        left.len(),
        show(cx.threshold.time())
    ))
    .shown(names)
    .measured(format!("{} left", left.len())))
}
