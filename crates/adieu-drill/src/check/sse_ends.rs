//! Events without end have one.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{Spec, Trying};
use crate::context::{CheckContext, Opened};
use crate::finding::Finding;
use crate::raw::EventStream;
use crate::report::Group;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "sse-ends",
    group: Group::KeepAlive,
    quick: false,
    why: "An event stream never ends by itself: if the program does not end it, every stop lasts until the deadline.",
    how: "An event stream is open when the signal comes. It must end in order, with its last chunk and without a reset, \
          and let the program go.",
    applies: "Needs server-sent events: --sse PATH, or found at /sse or /events. Skipped if what comes is not \
              text/event-stream, has a length, or is over before the signal.",
    threshold: |_| Threshold::Time(Duration::from_secs(5)),
    hints: &[
        (
            "axum",
            "take the `Stopping` extractor of adieu into the stream, and end the stream when it fires",
        ),
        (
            "uvicorn / Starlette",
            "end the generator on shutdown (a global Event set in lifespan), or set \
                                 `--timeout-graceful-shutdown`",
        ),
        ("Node", "`res.end()` for every open stream at the signal"),
        (
            "Go",
            "watch a context that `server.RegisterOnShutdown` cancels",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.sse else {
        return Ok(Finding::skipped(
            "no event stream was found; give its path with --sse PATH",
        ));
    };
    let Opened {
        run,
        endpoint,
        path,
    } = cx.open(path).await?;
    let mut stream = match EventStream::open(&endpoint).await {
        Ok(stream) => stream,
        Err(why) => {
            return Ok(Finding::skipped(format!(
                "{path} gives no event stream: {why}; give a path that does with --sse PATH"
            )));
        }
    };
    let mut reading = pin!(stream.end());
    run.let_arrive().await;
    if timeout(Duration::ZERO, &mut reading).await.is_ok() {
        return Ok(Finding::skipped(format!(
            "the event stream at {path} was over before the signal; give one that lasts with --sse PATH"
        )));
    }
    let signal = run.stop();
    let limit = cx.idle_stop() + cx.threshold.time();
    let end: Result<io::Result<()>, _> = timeout_at(Instant::now() + limit, reading).await;
    let took = show(signal.elapsed());
    cx.see_out(&run, signal).await;
    Ok(match end {
        Ok(Ok(())) => {
            Finding::passed(format!("the event stream ended in order after {took}")).measured(took)
        }
        Ok(Err(error)) => {
            let how = match error.kind() {
                io::ErrorKind::UnexpectedEof => "closed without its last chunk".to_owned(),
                _ => error.to_string(),
            };
            Finding::failed("the event stream was cut")
                .shown([format!("GET {path}, after {took}: {how}")])
                .measured("cut")
        }
        Err(_) => Finding::late(format!(
            "the event stream still goes on {} after the signal",
            show(limit)
        ))
        .shown(run.last_lines(3))
        .measured(format!("more than {}", show(limit))),
    })
}
