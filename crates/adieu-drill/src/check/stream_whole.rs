//! An answer that comes in pieces, across the signal.

use std::io;

use tokio::time::timeout;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::place::without_query;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;
use crate::wire::{Broken, Wire};

pub(crate) const SPEC: Spec = Spec {
    id: "stream-whole",
    group: Group::Drain,
    quick: false,
    why: "A download that is streamed must arrive to its end, or the client must notice: one that ends early as if it \
          were whole is corruption.",
    how: "The streaming path is asked and begins to answer; then the signal comes. The rest must arrive: in the right \
          framing, and the same bytes as before.",
    applies: "Needs a path that streams for a second or so and ends: --stream PATH, or found at /stream.",
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
    let (one, two) = tokio::join!(
        Wire::ask_within(&place, &request, PATIENCE * 3),
        Wire::ask_within(&place, &request, PATIENCE * 3)
    );
    let (one, two) = match (one, two) {
        (Ok(one), Ok(two)) if one.head.status < 400 => (one.body, two.body),
        (Ok(one), Ok(_)) => {
            return Ok(Finding::skipped(format!(
                "{path} answers {}",
                one.head.status
            )));
        }
        (Err(broken), _) | (_, Err(broken)) => {
            return Ok(Finding::failed(format!(
                "{path} fails before any stop: {broken}"
            )));
        }
    };
    let mut signal = None;
    let read = async {
        let mut wire = run.wire().await?;
        wire.send(&request.bytes(false)).await?;
        let head = timeout(PATIENCE, wire.head()).await;
        let head = head.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (head, _) = head.map_err(|error| Broken::new(error, true, 0))?;
        signal = Some(run.stop());
        let body = timeout(PATIENCE * 3, wire.body(head.body)).await;
        let body = body.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        body.map_err(|error| Broken::new(error, true, 1))
    };
    let read = read.await;
    if let Some(signal) = signal {
        stage.see_out(&run, signal).await;
    }
    // Two that differ by themselves cannot tell a third one wrong.
    let (steady, steady_length) = (one == two, one.length == two.length);
    Ok(match read {
        Ok(body) if body == one || (!steady && (body.length == one.length || !steady_length)) => {
            let same = if steady {
                ""
            } else {
                " (it differs each time)"
            };
            Finding::passed(format!(
                "a stream of {} bytes came to its end{same}",
                body.length
            ))
            .measured("0 of 1 lost")
        }
        Ok(body) => Finding::failed("a stream ended early as if it were whole")
            .shown([format!(
                "GET {path}: {body:?} across the stop, {one:?} before"
            )])
            .measured("1 of 1 lost"),
        Err(broken) => Finding::failed("a stream under way was cut")
            .shown([format!("GET {path}: {broken}")])
            .shown(run.last_lines(3))
            .measured("1 of 1 lost"),
    })
}
