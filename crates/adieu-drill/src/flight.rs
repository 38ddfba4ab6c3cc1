//! A request that is under way.

use std::io;
use std::time::{Duration, Instant};

use adieu_load::Request;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::place::{Place, label};
use crate::report::{Bar, Fate};
use crate::wire::{Answer, Broken, Wire};

/// A request that was sent whole; its answer is read as it comes. Dropped, the connection is closed.
#[derive(Debug)]
pub(crate) struct Flight {
    began: Instant,
    label: String,
    task: JoinHandle<Result<Answer, Broken>>,
}

/// One that is over.
#[derive(Debug)]
pub(crate) struct Landed {
    began: Instant,
    pub(crate) ended: Instant,
    label: String,
    pub(crate) result: Result<Answer, Broken>,
}

impl Flight {
    /// Connects and sends all of it. The connection may be kept afterwards, as far as the server is told.
    pub(crate) async fn begin(place: &Place, request: &Request) -> Result<Self, Broken> {
        let began = Instant::now();
        let mut wire = Wire::open(&place.target()).await?;
        wire.send(&request.bytes(false)).await?;
        Ok(Self {
            began,
            label: label(request),
            task: tokio::spawn(async move { wire.answer().await }),
        })
    }

    /// Whether its answer is still to come.
    pub(crate) fn is_open(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits for the answer for so long.
    pub(crate) async fn land(mut self, patience: Duration) -> Landed {
        let result = match timeout(patience, &mut self.task).await {
            Ok(Ok(result)) => result,
            Ok(Err(panicked)) => Err(Broken::Unsent(io::Error::other(panicked))),
            Err(_) => Err(Broken::TimedOut(0)),
        };
        Landed {
            began: self.began,
            ended: result
                .as_ref()
                .map_or_else(|_| Instant::now(), |answer| answer.ended),
            label: std::mem::take(&mut self.label),
            result,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Landed {
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
            start_us: crate::record::micros(self.began, signal),
            end_us: crate::record::micros(self.ended, signal),
            connection,
            label: self.label.clone(),
            fate: self.fate(),
        }
    }
}
