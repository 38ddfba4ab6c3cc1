//! Whose a connection is while it moves. No clock and no socket.
//!
//! At every instant one process may read a connection and write to it:
//!
//! | step | owner |
//! |---|---|
//! | the old process stops reading, and sends the offer with the socket | the old one, which does not use it |
//! | the new process has received the offer, and neither reads nor writes | the old one, which does not use it |
//! | the channel has accepted the new process's `taken` | the new one |
//! | the channel has accepted the new process's `refused` | the old one |
//! | the channel has ended, and no answer was in it | the old one: the new process is gone, or has closed its copy |
//!
//! The kernel keeps an answer that it has accepted, also if its sender dies: so the old process always finds it before
//! the end of the channel. The old process closes its end of the channel only by ending, and never uses again what it has
//! offered and got no answer for. So a new process whose `taken` cannot be sent because the old one is gone may use it.

use std::collections::BTreeMap;

/// What the new process says of an offer, or its silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OfferAnswer {
    Taken,
    Refused(String),
    /// The channel has ended without an answer.
    NewProcessGone,
}

/// The offers of the old process that have no answer yet. `T` is who waits for it.
#[derive(Debug)]
pub(super) struct Offers<T> {
    next: u64,
    open: BTreeMap<u64, T>,
    state: ChannelState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChannelState {
    Open,
    /// The new process has said what makes no sense: nothing more is offered.
    Distrusted,
    Ended,
}

impl<T> Default for Offers<T> {
    fn default() -> Self {
        Self {
            next: 0,
            open: BTreeMap::new(),
            state: ChannelState::Open,
        }
    }
}

impl<T> Offers<T> {
    /// Whether connections may be offered.
    pub(super) fn is_open(&self) -> bool {
        self.state == ChannelState::Open
    }

    /// The number of the next offer; gives it back if nothing may be offered.
    pub(super) fn begin(&mut self, waiting: T) -> Result<u64, T> {
        if !self.is_open() {
            return Err(waiting);
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, waiting);
        Ok(number)
    }

    /// The offer was not sent: the connection was never out of this process.
    pub(super) fn not_sent(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// An answer to this offer has come, from the end of the queue that the kernel keeps. Nothing more is offered if
    /// there is no such offer.
    pub(super) fn answered(&mut self, number: u64) -> Option<T> {
        let waiting = self.open.remove(&number);
        if waiting.is_none() {
            self.distrust();
        }
        waiting
    }

    /// The new process has said what makes no sense. Offers without an answer stay without: it may have taken them.
    pub(super) fn distrust(&mut self) {
        if self.state == ChannelState::Open {
            self.state = ChannelState::Distrusted;
        }
    }

    /// The channel has ended, and every answer in it was read: what has none is this process's own again.
    pub(super) fn ended(&mut self) -> Vec<T> {
        self.state = ChannelState::Ended;
        std::mem::take(&mut self.open).into_values().collect()
    }
}

#[cfg(test)]
#[path = "offers_model.rs"]
mod model;
