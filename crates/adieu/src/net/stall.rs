//! A client that stopped reading, seen by the task that writes to it in a stop.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::net::SharedSocket;

/// How often to look whether it takes anything: room for more is only told of when there is a lot of it, and a slow
/// reader is not one that stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// One write that does not go on.
pub(super) struct Stall {
    look: Pin<Box<Sleep>>,
    /// When the client took anything last.
    since: Instant,
    unacknowledged: u32,
}

impl Stall {
    pub(super) fn new(socket: &SharedSocket) -> Self {
        Self {
            look: Box::pin(tokio::time::sleep(LOOK_INTERVAL)),
            since: Instant::now(),
            unacknowledged: socket.unacknowledged(),
        }
    }

    /// Whether the client has taken nothing for so long; else the task looks again in a while.
    pub(super) fn is_over(
        &mut self,
        socket: &SharedSocket,
        limit: Duration,
        cx: &mut Context<'_>,
    ) -> bool {
        loop {
            let now = Instant::now();
            let left = socket.unacknowledged();
            if left < self.unacknowledged {
                self.since = now;
            }
            self.unacknowledged = left;
            let end = self.since + limit;
            if now >= end {
                return true;
            }
            if self.look.is_elapsed() {
                self.look.as_mut().reset(end.min(now + LOOK_INTERVAL));
            }
            if self.look.as_mut().poll(cx).is_pending() {
                return false;
            }
        }
    }
}
