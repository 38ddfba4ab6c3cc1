//! The next one can start at once.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::time::sleep;

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::report::Group;
use crate::stop_log::LoadKind;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "port-free",
    group: Group::Exit,
    quick: true,
    why: "A restart fails with `address already in use` if something of the old program still holds the port.",
    how: "The program has served a request and is stopped. Once its process is gone its port must be free to listen on \
          (with SO_REUSEADDR, as servers do; connections in TIME_WAIT do not count).",
    applies: "Always.",
    threshold: |_| Threshold::Time(Duration::from_secs(1)),
    hints: &[
        (
            "any",
            "a child process has inherited the listening socket: open it with CLOEXEC, and wait for children",
        ),
        (
            "gunicorn / uvicorn --workers",
            "the signal must go to the parent, and the parent must wait for its workers",
        ),
        (
            "shell scripts",
            "`exec` the server, or the shell dies and the server stays",
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
    let signal = run.stop();
    let Some(ended) = cx.see_end(&run, signal, LoadKind::Idle).await else {
        return Ok(cx.killed(&run, LoadKind::Idle));
    };
    let limit = ended.at + cx.threshold.time();
    let refusal = loop {
        match TcpListener::bind(run.endpoint.address).await {
            Ok(_) => break None,
            Err(error) if Instant::now() > limit => break Some(error),
            // Nothing tells when a port becomes free.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    };
    let took = show(ended.at.elapsed());
    match refusal {
        None => Ok(Finding::passed(format!(
            "{} was free {took} after the end",
            run.endpoint.address
        ))
        .measured(took)),
        Some(error) => {
            let descendants = run.process.descendants().await;
            let running = descendants
                .iter()
                .map(|one| format!("still running: {} (process {})", one.name, one.pid));
            Ok(Finding::late(format!(
                "{} is not free {took} after the end: {error}",
                run.endpoint.address
            ))
            .shown([format!(
                "it ended {} after the signal; listening on {} since then: {error}",
                show(ended.at.saturating_duration_since(signal)),
                run.endpoint.address
            )])
            .shown(running)
            .measured(took))
        }
    }
}
