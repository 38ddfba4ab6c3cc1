//! A WebSocket gets the close code 1001, "going away".

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{Spec, Trying};
use crate::context::{CheckContext, Opened};
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, Message, WebSocket};
use crate::report::Group;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "websocket-1001",
    group: Group::KeepAlive,
    quick: false,
    why: "A client that gets 1001 connects again at once and elsewhere; one that is cut shows an error, or waits.",
    how: "A WebSocket is open when the signal comes. A close frame with the code 1001 (going away) or 1012 (service \
          restart) must arrive.",
    applies: "Needs a WebSocket: --ws PATH, or found at /ws or /websocket.",
    threshold: |_| Threshold::Time(Duration::from_secs(5)),
    hints: &[
        (
            "axum",
            "adieu's `app.http` sends it; otherwise keep a list of sockets and send `Message::Close` with code 1001",
        ),
        ("uvicorn", "sends 1012 at its shutdown"),
        (
            "Node ws",
            "`wss.clients.forEach(ws => ws.close(1001))` at the signal",
        ),
        (
            "Go gorilla",
            "`WriteControl(CloseMessage, FormatCloseMessage(CloseGoingAway, reason), deadline)`; \
                        `server.Shutdown` does not know hijacked connections",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(path) = &cx.capabilities.ws else {
        return Ok(Finding::skipped(
            "no WebSocket was found; give its path with --ws PATH",
        ));
    };
    let Opened {
        run,
        endpoint,
        path,
    } = cx.open(path).await?;
    let mut socket = match timeout(ANSWER_TIMEOUT, WebSocket::open(&endpoint)).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => {
            return Ok(Finding::skipped(format!(
                "{path} does not become a WebSocket: {error}"
            )));
        }
        Err(_) => {
            return Ok(Finding::skipped(format!(
                "{path} does not become a WebSocket: no answer within {}",
                show(ANSWER_TIMEOUT)
            )));
        }
    };
    run.let_arrive().await;
    let signal = run.stop();
    let limit = cx.idle_stop() + cx.threshold.time();
    let finding = farewell(&mut socket, signal, limit).await;
    cx.see_out(&run, signal).await;
    Ok(finding)
}

/// What the server says last, for so long.
async fn farewell(socket: &mut WebSocket, signal: std::time::Instant, limit: Duration) -> Finding {
    let until = Instant::now() + limit;
    loop {
        match timeout_at(until, socket.next()).await {
            Ok(Ok(Message::Close(code, reason))) => {
                let took = show(signal.elapsed());
                // Whether it waits for our answer is its own affair.
                let _ = socket.close(code).await;
                let said = match code {
                    Some(code) => format!("code {code} {reason}").trim_end().to_owned(),
                    None => "no code".to_owned(),
                };
                return match code {
                    Some(1001 | 1012) => {
                        Finding::passed(format!("closed with {said} after {took}")).measured(took)
                    }
                    _ => Finding::failed(format!("closed with {said} in the place of 1001"))
                        .shown([format!(
                            "a close frame came {took} after the signal with {said}; demanded: 1001 or 1012"
                        )])
                        .measured(said),
                };
            }
            Ok(Ok(Message::Ping(payload))) => {
                let _ = socket.send(10, &payload).await;
            }
            Ok(Ok(Message::Other)) => {}
            Ok(Err(error)) => {
                return Finding::failed("the WebSocket was cut without a close frame")
                    .shown([format!("after {}: {error}", show(signal.elapsed()))])
                    .measured("no close frame");
            }
            Err(_) => {
                return Finding::late(format!("no close frame within {}", show(limit)))
                    .measured("no close frame");
            }
        }
    }
}
