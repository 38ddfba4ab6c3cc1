//! A request in flight.

use std::io;
use std::time::{Duration, Instant};

use adieu_load::Request;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::arrival::{Arrival, Sent};
use crate::endpoint::{Endpoint, label};
use crate::raw::{Answer, RawConn, WireError};
use crate::report::{Bar, Fate};

/// A request that was sent whole; its answer is read as it comes. Dropped, the connection is closed.
#[derive(Debug)]
pub(crate) struct InFlight {
    began: Instant,
    pub(crate) sent: Sent,
    /// Where it was when it was looked for last.
    pub(crate) arrival: Arrival,
    label: String,
    task: JoinHandle<(Result<Answer, WireError>, Instant)>,
}

/// One that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) began: Instant,
    pub(crate) arrival: Arrival,
    pub(crate) ended: Instant,
    label: String,
    pub(crate) result: Result<Answer, WireError>,
}

impl InFlight {
    /// Connects and sends all of it. The request does not ask the server to close the connection.
    pub(crate) async fn begin(endpoint: &Endpoint, request: &Request) -> Result<Self, WireError> {
        let began = Instant::now();
        let mut conn = RawConn::open(&endpoint.target()).await?;
        let bytes = request.bytes(false);
        conn.send(&bytes).await?;
        Ok(Self {
            began,
            sent: Sent {
                from: conn.from,
                bytes: bytes.len() as u64,
            },
            arrival: Arrival::Unknown,
            label: label(request),
            task: tokio::spawn(async move { (conn.answer().await, Instant::now()) }),
        })
    }

    /// Whether its answer is still to come.
    pub(crate) fn is_open(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits for the answer for so long.
    pub(crate) async fn finish(mut self, patience: Duration) -> Finished {
        let (result, ended) = match timeout(patience, &mut self.task).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(panicked)) => {
                let broken = WireError::Unsent(io::Error::other(panicked));
                (Err(broken), Instant::now())
            }
            Err(_) => (Err(WireError::TimedOut(0)), Instant::now()),
        };
        Finished {
            began: self.began,
            arrival: self.arrival,
            ended,
            label: std::mem::take(&mut self.label),
            result,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Finished {
    pub(crate) fn fate(&self) -> Fate {
        match &self.result {
            Ok(answer) => match answer.head.status {
                408 => Fate::Retry,
                500.. => Fate::ServerError,
                _ => Fate::Answered,
            },
            Err(broken) => broken.fate(),
        }
    }

    /// As a bar, `signal` being the beginning of time.
    pub(crate) fn bar(&self, signal: Instant, connection: u32) -> Bar {
        Bar {
            start_us: crate::stop_log::micros(self.began, signal),
            end_us: crate::stop_log::micros(self.ended, signal),
            connection,
            label: self.label.clone(),
            fate: self.fate(),
        }
    }
}
