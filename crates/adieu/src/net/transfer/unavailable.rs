//! Where no socket can be sent to another process: connections end with the process that accepted them.

use super::Kind;
use super::move_stats::NotMoved;
use crate::net::{ConnectionSnapshot, SharedSocket};

/// There is none.
pub(crate) enum Successor {}

/// There is none.
pub(crate) enum Turn {}

impl Successor {
    pub(crate) fn pid(&self) -> u32 {
        match *self {}
    }

    #[cfg(feature = "websocket")]
    pub(crate) fn takes(&self, _: &str, _: Kind) -> bool {
        match *self {}
    }

    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn turn(self: std::sync::Arc<Self>) -> Option<Turn> {
        match *self {}
    }
}

impl Turn {
    pub(crate) async fn offer(
        self,
        _: &str,
        _: Kind,
        _: &SharedSocket,
        _: ConnectionSnapshot,
    ) -> Result<(), NotMoved> {
        match self {}
    }
}

/// Always empty.
pub(crate) struct ArrivalQueue;

impl ArrivalQueue {
    pub(crate) async fn next(&mut self) -> SharedSocket {
        std::future::pending().await
    }

    pub(crate) async fn rest(self, _: impl FnMut(SharedSocket)) {}
}
