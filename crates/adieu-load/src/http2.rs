//! HTTP/2: several streams at a time, until the server says that it goes away.

use std::time::Instant;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Client;
use crate::load::Mode;
use crate::outcome::{Loss, Outcome};
use crate::tally::Tally;
use crate::target::Connection;

impl Client {
    pub(crate) async fn drive_http2(
        &mut self,
        connection: Connection,
        uri: &http::Uri,
        streams: usize,
    ) {
        let Ok(Ok((sender, driver))) =
            timeout(self.patience, h2::client::handshake(connection)).await
        else {
            return self.settle(Outcome::Unsent, || "no HTTP/2 handshake".to_owned());
        };
        let driver = tokio::spawn(driver);
        let rounds = match (self.mode, self.keeps()) {
            (Mode::KeepAlive, _) => u32::MAX,
            (Mode::Fresh, _) => 1,
            (Mode::Mixed, true) => 8,
            (Mode::Mixed, false) => 2,
        };
        let mut lanes = JoinSet::new();
        for _ in 0..streams {
            let lane = Self {
                target: self.target.clone(),
                protocol: self.protocol.clone(),
                mode: self.mode,
                patience: self.patience,
                rng: self.rng,
                shared: std::sync::Arc::clone(&self.shared),
                ending: self.ending.clone(),
                tally: Tally::default(),
                kept: self.kept.div_ceil(streams.max(1)),
                connection: self.connection,
                began: Instant::now(),
            };
            lanes.spawn(lane.lane(sender.clone(), uri.clone(), rounds));
        }
        // The driver ends when the last sender and the last stream are gone.
        drop(sender);
        while let Some(Ok(tally)) = lanes.join_next().await {
            self.tally += tally;
        }
        let _ = timeout(self.patience, driver).await;
    }

    /// One stream after the other.
    async fn lane(mut self, mut sender: SendRequest<Bytes>, uri: http::Uri, rounds: u32) -> Tally {
        for _ in 0..rounds {
            // An error here is a connection on which nothing more can be sent: a GOAWAY, as a rule.
            let Ok(ready) = sender.ready().await else {
                break;
            };
            sender = ready;
            self.began = Instant::now();
            let mut request = http::Request::new(());
            *request.uri_mut() = uri.clone();
            let Ok((answer, _)) = sender.send_request(request, true) else {
                break;
            };
            let mut begun = false;
            let exchange = async {
                let answer = answer.await?;
                begun = true;
                let status = answer.status().as_u16();
                let mut body = answer.into_body();
                while let Some(piece) = body.data().await {
                    let piece = piece?;
                    let _ = body.flow_control().release_capacity(piece.len());
                }
                body.trailers().await?;
                Ok(status)
            };
            let exchange: Result<Result<u16, h2::Error>, _> =
                timeout(self.patience, exchange).await;
            let outcome = match &exchange {
                Ok(Ok(408)) => Outcome::Retry,
                Ok(Ok(status @ 500..)) => Outcome::Failed(*status),
                Ok(Ok(_)) => Outcome::Answered,
                Ok(Err(error)) => judge(error, begun),
                Err(_) => Outcome::Lost(Loss::TimedOut),
            };
            self.settle(outcome, || match &exchange {
                Ok(Ok(status)) => format!("status {status}"),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer in time".to_owned(),
            });
            if self.is_ending() || !matches!(exchange, Ok(Ok(_))) {
                break;
            }
        }
        self.tally
    }
}

fn judge(error: &h2::Error, begun: bool) -> Outcome {
    // Of a remote GOAWAY only those streams hear that lie above its last one; they were not and will not be
    // handled. A refused stream was not either.
    let told = error.is_remote() && error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    if told || error.reason() == Some(Reason::REFUSED_STREAM) {
        return Outcome::Retry;
    }
    Outcome::Lost(match error.get_io().map(std::io::Error::kind) {
        _ if begun => Loss::Truncated,
        Some(std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::UnexpectedEof) => Loss::Closed,
        _ => Loss::Reset,
    })
}
