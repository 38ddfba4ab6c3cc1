//! Connections that move to the new process in a hand-off.
//!
//! The socket goes over a private channel to the process that this one has started, together with the bytes that were read
//! and that no handler has seen. `offers` says whose the connection is at each step.

#[cfg(target_os = "linux")]
mod channel;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "no socket can be sent there")
)]
mod message;
#[cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        reason = "no connection is kept there, because none is offered"
    )
)]
mod move_stats;
#[cfg(target_os = "linux")]
mod new_process;
#[cfg(target_os = "linux")]
mod offers;
#[cfg(target_os = "linux")]
mod old_process;
#[cfg(not(target_os = "linux"))]
mod unavailable;

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::{os::fd::OwnedFd, sync::OnceLock};

#[cfg(target_os = "linux")]
pub(crate) use channel::pair;
pub(crate) use message::Kind;
#[cfg(fuzzing)]
pub(crate) use message::check_any;
pub(super) use move_stats::MoveStats;
#[cfg(target_os = "linux")]
pub(crate) use new_process::ArrivalQueue;
#[cfg(target_os = "linux")]
pub(crate) use old_process::{Successor, Turn};
#[cfg(not(target_os = "linux"))]
pub(crate) use unavailable::{ArrivalQueue, Successor, Turn};

use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;

/// The connections of one service that move, on both sides of a hand-off.
#[derive(Default)]
pub(crate) struct Transfer {
    #[cfg(target_os = "linux")]
    successor: OnceLock<Result<Arc<Successor>, String>>,
    #[cfg(target_os = "linux")]
    arrivals: new_process::Arrivals,
}

impl Extension for Transfer {}

impl ServiceShared {
    pub(crate) fn transfer(&self) -> &Transfer {
        self.extensions.get()
    }
}

#[cfg(target_os = "linux")]
impl Transfer {
    /// The new process serves, and connections may move to it. An error says why none will.
    pub(crate) fn begin(&self, core: &ServiceShared, end: OwnedFd, pid: u32) {
        if let Some(begun) = Successor::begin(&core.runtime, end, pid, &core.name).transpose() {
            if let Err(why) = &begun {
                let why = why.clone();
                core.log_deferred(move || {
                    tracing::warn!(target: "adieu", why, "connections do not move to process {pid}");
                });
            }
            let _ = self.successor.set(begun);
        }
    }

    /// The new process, if connections of this listener move to it.
    pub(super) fn successor_of(&self, server: &(String, Kind)) -> Option<Arc<Successor>> {
        let successor = self.successor.get()?.as_ref().ok()?;
        let (name, kind) = server;
        successor.takes(name, *kind).then(|| Arc::clone(successor))
    }

    /// Why none moves, though the new process would take some.
    pub(super) fn objection(&self) -> Option<&str> {
        let objection = self.successor.get()?.as_ref().err()?;
        Some(objection)
    }

    /// Connections will come from this process.
    pub(crate) fn expect(&self, pid: u32, end: OwnedFd) {
        self.arrivals.expect(pid, end);
    }

    /// Where an accept loop finds the connections of its listener that the old process had. At the end `note` is given
    /// what the report should say of them.
    pub(super) fn arrivals(
        &self,
        name: Option<&str>,
        kinds: &'static [Kind],
        note: impl FnOnce(String) + Send + 'static,
    ) -> ArrivalQueue {
        let name = name.filter(|_| !kinds.is_empty());
        let register = |name: &str| {
            let name = name.to_owned();
            self.arrivals.register(name, kinds, Box::new(note))
        };
        ArrivalQueue(name.and_then(register))
    }

    /// Every server listens, and this process takes connections from now on.
    pub(crate) fn say_hello(&self, core: &ServiceShared) {
        self.arrivals.begin(core);
    }
}

#[cfg(not(target_os = "linux"))]
impl Transfer {
    pub(super) fn successor_of(&self, _: &(String, Kind)) -> Option<Arc<Successor>> {
        None
    }

    pub(super) fn objection(&self) -> Option<&str> {
        None
    }

    pub(super) fn arrivals(
        &self,
        _: Option<&str>,
        _: &'static [Kind],
        _: impl FnOnce(String) + Send + 'static,
    ) -> ArrivalQueue {
        ArrivalQueue
    }
}
