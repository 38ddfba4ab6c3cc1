//! A descriptor in reserve, for a port that is to answer when all others are used up.

use socket2::{Domain, Socket, Type};

use super::listen::Listening;
use super::wire::Wire;

/// A socket that is good for nothing but to make room for another.
pub(crate) struct Spare(Option<Socket>);

impl Spare {
    pub(crate) fn new() -> Self {
        Self(open())
    }

    /// Takes in whoever waits first, in the place of the reserve; nobody, if there is none, or somebody was faster.
    pub(crate) fn take_in(&mut self, listening: &Listening) -> Option<Wire> {
        drop(self.0.take()?);
        listening.acceptor.accept_now().ok()
    }

    /// Has one again, if there is one to be had.
    pub(crate) fn restock(&mut self) {
        if self.0.is_none() {
            self.0 = open();
        }
    }
}

fn open() -> Option<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM, None).ok()
}
