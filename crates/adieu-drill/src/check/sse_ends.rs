//! Events without end have one.

use std::io;
use std::time::Duration;

use adieu_load::Body;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::without_query;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::{Threshold, show};
use crate::wire::{Digest, End};

pub(crate) const SPEC: Spec = Spec {
    id: "sse-ends",
    group: Group::KeepAlive,
    quick: false,
    why: "An event stream never ends by itself: if nobody ends it, every stop lasts until the deadline.",
    how: "An event stream is open when the signal comes. It must end in order, with its last chunk and without a reset, \
          and let the program go.",
    applies: "Needs server-sent events: --sse PATH, or found at /sse or /events.",
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
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let Some(path) = &stage.found.sse else {
        return Ok(Finding::skipped(
            "no event stream was found; give its path with --sse PATH",
        ));
    };
    let run = stage.start().await?;
    let place = run
        .place
        .at(&run.subject.blanks.fill(path))
        .map_err(crate::CannotDrill::Usage)?;
    let path = without_query(path);
    let mut request = place.request();
    request
        .headers
        .push(("accept".to_owned(), "text/event-stream".to_owned()));
    let opened = async {
        let mut wire = run.wire().await.map_err(|broken| broken.to_string())?;
        wire.send(&request.bytes(false))
            .await
            .map_err(|broken| broken.to_string())?;
        let head = timeout(PATIENCE, wire.head())
            .await
            .map_err(|_| "no head came".to_owned())?;
        let (head, _) = head.map_err(|error| error.to_string())?;
        match head.status {
            200 => Ok((wire, head.body)),
            status => Err(format!("status {status}")),
        }
    };
    let (mut wire, body) = match opened.await {
        Ok(opened) => opened,
        Err(why) => {
            return Ok(Finding::skipped(format!(
                "{path} gives no event stream: {why}"
            )));
        }
    };
    run.let_arrive().await;
    let signal = run.stop();
    let limit = stage.idle_stop() + stage.threshold.time();
    let until = Instant::now() + limit;
    let reading = async {
        match body {
            Body::Chunked => {
                let mut digest = Digest::default();
                while wire.chunk(&mut digest).await? {}
                Ok(())
            }
            Body::Length(_) | Body::UntilClose => match wire.end().await {
                End::Closed => Ok(()),
                End::Broken(error) => Err(error),
            },
        }
    };
    let end: Result<io::Result<()>, _> = timeout_at(until, reading).await;
    let took = show(signal.elapsed());
    stage.see_out(&run, signal).await;
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
