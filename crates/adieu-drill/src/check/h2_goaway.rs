//! HTTP/2 says goodbye in two steps.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, Frame, H2};
use crate::report::Group;
use crate::running::RunningTarget;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "h2-goaway",
    group: Group::KeepAlive,
    quick: false,
    why: "With one GOAWAY, requests that are on their way when it is sent are refused without a mistake of the client; \
          with none, they are lost.",
    how: "A stream is in flight on an HTTP/2 connection when the signal comes. A first GOAWAY must announce without \
          refusing (last stream 2^31-1), a second one name the last stream that is served. A request that crosses the \
          first one, and every stream up to the named one, must be answered.",
    applies: "Programs that speak HTTP/2, over TLS or with prior knowledge; found by trying.",
    threshold: |_| Threshold::Count(0, "streams lost"),
    hints: &[
        (
            "axum / hyper",
            "`graceful_shutdown` on the connection does it; dropping the connection does not",
        ),
        (
            "Go",
            "`server.Shutdown` does it for its own HTTP/2; h2c needs `http2.ConfigureServer`",
        ),
        (
            "Node",
            "`session.goaway(NGHTTP2_NO_ERROR, 2**31-1)` first, then `session.close()`",
        ),
        (
            "hypercorn",
            "sends one GOAWAY; keep the replica out of the load balancer before the signal",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

/// Announces, and refuses nothing.
const EVERYTHING: u32 = 0x7fff_ffff;

#[derive(Default)]
struct Heard {
    goaways: Vec<(u32, u32)>,
    answered: BTreeSet<u32>,
    refused: BTreeSet<u32>,
    asked: BTreeSet<u32>,
    signal: Option<std::time::Instant>,
    end: String,
}

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if !cx.capabilities.h2 {
        return Ok(Finding::skipped("it does not speak HTTP/2"));
    }
    let run = cx.start().await?;
    let heard = match listen(cx, &run).await {
        Ok(heard) => heard,
        Err(error) => {
            return Ok(Finding::failed(format!(
                "HTTP/2 fails before any stop: {error}"
            )));
        }
    };
    if let Some(signal) = heard.signal {
        cx.see_out(&run, signal).await;
    }
    let evidence = evidence(&heard);
    Ok(match judge(&heard, cx.threshold.count()) {
        Ok(words) => Finding::passed(words).shown(evidence).measured("0 lost"),
        Err(words) => Finding::failed(words)
            .shown(evidence)
            .shown(run.last_lines(3)),
    })
}

async fn listen(cx: &CheckContext<'_>, run: &RunningTarget) -> io::Result<Heard> {
    let mut heard = Heard::default();
    let mut h2 = timeout(ANSWER_TIMEOUT, H2::open(&run.endpoint.plain())).await??;
    let request = run.endpoint.request();
    let first = cx
        .held(run, Duration::from_millis(700))
        .unwrap_or_else(|| request.clone());
    heard
        .asked
        .insert(h2.request(&first, run.endpoint.tls).await?);
    // Its settings, which it says first and which a client has acknowledged long before any stop.
    timeout_at(Instant::now() + ANSWER_TIMEOUT, h2.next()).await??;
    run.let_arrive().await;
    heard.signal = Some(run.stop());
    let until = Instant::now() + cx.idle_stop() + ANSWER_TIMEOUT;
    loop {
        let frame = match timeout_at(until, h2.next()).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(error)) => {
                heard.end = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "closed".to_owned(),
                    _ => error.to_string(),
                };
                return Ok(heard);
            }
            Err(_) => {
                heard.end = "still open".to_owned();
                return Ok(heard);
            }
        };
        if let Some(goaway) = frame.goaway() {
            heard.goaways.push(goaway);
            if heard.goaways.len() == 1 && goaway.0 == EVERYTHING {
                // As if it had been on its way: the server cannot tell. The answer to its PING comes after it.
                if let Ok(stream) = h2.request(&request, run.endpoint.tls).await {
                    heard.asked.insert(stream);
                }
            }
        }
        match frame.kind {
            // A connection that ends while we answer shows at the next read.
            Frame::PING if !frame.is_ack() => {
                let _ = h2.pong(&frame).await;
            }
            Frame::RESET => {
                heard.refused.insert(frame.stream);
            }
            _ if frame.ends_stream() => {
                heard.answered.insert(frame.stream);
            }
            _ => {}
        }
    }
}

fn judge(heard: &Heard, allowed: u64) -> Result<String, String> {
    let Some(((first, _), (last, reason))) = heard
        .goaways
        .first()
        .copied()
        .zip(heard.goaways.last().copied())
    else {
        return Err("the connection ended without a GOAWAY".to_owned());
    };
    let lost = heard
        .asked
        .iter()
        .filter(|stream| **stream <= last && !heard.answered.contains(stream));
    let lost: Vec<String> = lost.map(u32::to_string).collect();
    if lost.len() as u64 > allowed {
        return Err(format!(
            "stream {} was not answered, though the last GOAWAY covers it",
            lost.join(", ")
        ));
    }
    if first != EVERYTHING {
        return Err(format!(
            "its first GOAWAY is of stream {first}: what is on its way is refused without a warning"
        ));
    }
    if reason != 0 {
        return Err(format!("the GOAWAY gives an error as its reason: {reason}"));
    }
    if heard.goaways.len() < 2 {
        return Err(
            "the first GOAWAY is never followed by one that names the last stream".to_owned(),
        );
    }
    Ok(format!(
        "two GOAWAYs, and all {} streams were answered",
        heard.answered.len()
    ))
}

fn evidence(heard: &Heard) -> Vec<String> {
    let goaways = heard.goaways.iter().map(|(last, reason)| match *last {
        EVERYTHING => format!("GOAWAY, last stream 2^31-1, reason {reason}"),
        last => format!("GOAWAY, last stream {last}, reason {reason}"),
    });
    let mut evidence: Vec<String> = goaways.collect();
    evidence.push(format!(
        "streams asked {:?}, answered {:?}, reset {:?}; the connection: {}",
        heard.asked, heard.answered, heard.refused, heard.end
    ));
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(goaways: &[(u32, u32)], asked: &[u32], answered: &[u32]) -> Heard {
        Heard {
            goaways: goaways.to_vec(),
            asked: asked.iter().copied().collect(),
            answered: answered.iter().copied().collect(),
            ..Heard::default()
        }
    }

    #[test]
    fn two_steps_and_every_stream() {
        let two = [(EVERYTHING, 0), (3, 0)];
        assert!(judge(&heard(&two, &[1, 3], &[1, 3]), 0).is_ok());
        for (bad, words) in [
            (heard(&[], &[1], &[1]), "without a GOAWAY"),
            (heard(&[(1, 0)], &[1], &[1]), "first GOAWAY is of stream 1"),
            // What comes of the first one is not the first thing to say.
            (heard(&[(1, 0), (1, 1)], &[1], &[1]), "of stream 1"),
            (heard(&[(EVERYTHING, 0)], &[1], &[1]), "never followed"),
            (heard(&two, &[1, 3], &[1]), "stream 3 was not answered"),
            (heard(&[(EVERYTHING, 0), (3, 2)], &[1], &[1]), "an error"),
        ] {
            let said = judge(&bad, 0).expect_err(words);
            assert!(said.contains(words), "{said}");
        }
        // Above the last one a client may send it again elsewhere.
        assert!(judge(&heard(&[(EVERYTHING, 0), (1, 0)], &[1, 3], &[1]), 0).is_ok());
    }
}
