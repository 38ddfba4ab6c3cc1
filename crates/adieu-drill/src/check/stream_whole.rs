//! An answer that comes in pieces, across the signal.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::without_query;
use crate::reference::Reference;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;
use crate::wire::{Answer, Broken};

pub(crate) const SPEC: Spec = Spec {
    id: "stream-whole",
    group: Group::Drain,
    quick: false,
    why: "A download that is streamed must arrive to its end, or the client must notice: one that ends early as if it \
          were whole is corruption.",
    how: "The streaming path is asked and begins to answer; then the signal comes. The rest must arrive: in the right \
          framing, and the same bytes as twice before, more than a second apart, save for the value of a number; as \
          long as before, if they differed by themselves.",
    applies: "Needs a path that streams for a second or so and ends: --stream PATH, or found at /stream. Skipped if the \
              answer is whole before the signal.",
    threshold: |_| Threshold::Count(0, "streams lost"),
    hints: &[
        (
            "any",
            "a stream is in flight until its end; a loop that looks at a stop flag must not end the stream as if it \
                 were whole",
        ),
        (
            "axum / hyper",
            "handled by `graceful_shutdown` within the grace; do not select the stop against the body",
        ),
        (
            "uvicorn / Starlette",
            "`StreamingResponse` is finished unless `--timeout-graceful-shutdown` cuts it",
        ),
        ("Node", "`server.close` waits for it"),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

/// What takes no longer than this does not stream.
const MOMENT: Duration = Duration::from_millis(50);

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let Some(path) = &stage.found.stream else {
        return Ok(Finding::skipped(
            "no path that streams was found; give one with --stream PATH",
        ));
    };
    let run = stage.start().await?;
    let place = run
        .place
        .at(&run.subject.blanks.fill(path))
        .map_err(crate::CannotDrill::Usage)?;
    let path = without_query(path);
    let request = place.request();
    let reference = match Reference::ask(&place, path).await {
        Ok(reference) => reference,
        Err(finding) => return Ok(finding),
    };
    let mut signal = None;
    let read = async {
        let mut wire = run.wire().await?;
        wire.send(&request.bytes(false)).await?;
        let head = timeout(PATIENCE, wire.head()).await;
        let head = head.map_err(|_| wire.timed_out())?;
        let (head, text) = head.map_err(|error| wire.broken(error))?;
        let body = {
            let mut body = pin!(wire.body(head.body));
            match timeout(MOMENT, &mut body).await {
                Ok(early) => Ok(early),
                Err(_) => {
                    signal = Some(run.stop());
                    timeout(PATIENCE * 3, body).await
                }
            }
        };
        let body = body.map_err(|_| wire.timed_out())?;
        let body = body.map_err(|error| wire.broken(error))?;
        let ended = Instant::now();
        Ok::<_, Broken>(Answer {
            head,
            text,
            body,
            ended,
        })
    };
    let read = read.await;
    let Some(signal) = signal else {
        return Ok(match read {
            Ok(answer) => Finding::skipped(format!(
                "the {} bytes of {path} were whole before the signal; give a path that streams for a second or so with \
                 --stream PATH",
                answer.body.length
            )),
            Err(broken) => Finding::failed(format!("{path} fails before any stop: {broken}")),
        });
    };
    stage.see_out(&run, signal).await;
    Ok(match read {
        Ok(answer) => match reference.wrong(&answer) {
            None => Finding::passed(format!(
                "a stream of {} bytes came to its end, whole {reference}",
                answer.body.length
            ))
            .measured("0 of 1 lost"),
            Some(wrong) => stage.one_lost(
                Finding::failed("a stream ended early as if it were whole")
                    .shown([format!("GET {path}: {wrong}")]),
            ),
        },
        Err(broken) => stage.one_lost(
            match broken {
                Broken::TimedOut(_) => Finding::late("a stream under way did not come to its end"),
                _ => Finding::failed("a stream under way was cut"),
            }
            .shown([format!("GET {path}: {broken}")])
            .shown(run.last_lines(3)),
        ),
    })
}
