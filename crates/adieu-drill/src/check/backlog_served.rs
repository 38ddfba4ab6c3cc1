//! Requests on connections in the accept queue at the signal must be answered.

use std::time::Duration;

use tokio::time::timeout;

use super::{Spec, Trying};
use crate::capabilities::Speaks;
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::in_flight::InFlight;
use crate::process::Signal;
use crate::raw::ANSWER_TIMEOUT;
use crate::report::{Fate, Group};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "backlog-served",
    group: Group::Drain,
    quick: false,
    why: "Connections in the listener's queue are made and have sent their requests; closing the listener over them \
          resets them all.",
    how: "The program is held with SIGSTOP while sixteen connections are made and send a request each, which the kernel \
          accepts into the queue. Then the stop signal is sent and the program goes on. Every request must be answered.",
    applies: "Programs that speak HTTP without TLS: a TLS handshake needs the program.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "on the stop accept until the queue is empty, and only then close the listener",
        ),
        (
            "axum / hyper",
            "adieu's `app.listen` empties the queue; `axum::serve` does not",
        ),
        (
            "any, unchanged",
            "no setting of Go, Node or uvicorn does it: start it with `adieu run -- …`, which drains the accept queue before the \
             program gets the signal; or let systemd hold the socket",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const CONNECTIONS: usize = 16;

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.capabilities.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = cx.start().await?;
    if run.endpoint.tls {
        return Ok(Finding::skipped(
            "a TLS handshake cannot happen while the program is held",
        ));
    }
    run.let_arrive().await;
    run.process.signal_all(Signal::STOP).await;
    let request = run.endpoint.request();
    let mut requests = Vec::new();
    while requests.len() < CONNECTIONS {
        // A full accept queue is not a fault of the shutdown.
        match timeout(
            Duration::from_secs(1),
            InFlight::begin(&run.endpoint, &request),
        )
        .await
        {
            Ok(Ok(in_flight)) => requests.push(in_flight),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let count = requests.len();
    let signal = run.stop();
    run.process.signal_all(Signal::CONT).await;
    if count == 0 {
        return Ok(Finding::skipped(
            "no connection fits into the listener's queue",
        ));
    }
    let mut evidence = Vec::new();
    let mut by_time = true;
    for (in_flight, number) in requests.into_iter().zip(1..) {
        let finished = in_flight.finish(cx.idle_stop() + ANSWER_TIMEOUT).await;
        let fate = finished.fate();
        if fate.lost() || fate == Fate::ServerError {
            by_time &= fate == Fate::TimedOut;
            evidence.push(format!(
                "connection {number} of {count} in the queue: {}",
                fate.words()
            ));
        }
    }
    cx.see_out(&run, signal).await;
    let lost = evidence.len();
    let measured = format!("{lost} of {count} lost");
    if lost as u64 > cx.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {count} requests in the listener's queue were lost"
        ));
        finding.by_time = by_time;
        return Ok(finding
            .shown(evidence.into_iter().take(5))
            .measured(measured));
    }
    Ok(Finding::passed(format!(
        "all {count} requests in the listener's queue were answered"
    ))
    .measured(measured))
}
