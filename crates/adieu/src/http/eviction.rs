//! Which connection is closed to make room for another, and how.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::close_policy::{CloseAction, ConnCounters, ConnState, Protocol};
use super::conn_state::ConnShared;

impl ConnShared {
    /// For how long it has had no request in flight, in milliseconds; `None` if it is not to be closed, or goes already.
    pub(super) fn idle_for(&self, now_ms: u64) -> Option<u64> {
        let is_asked = self.evicting.load(Relaxed);
        (!is_asked)
            .then(|| self.counters.idle_for(now_ms))
            .flatten()
    }

    /// What is to be done now that it was asked to make room; `None` if it was not, or a request has come in meanwhile:
    /// then another has to go.
    pub(super) fn eviction_action(&self) -> Option<CloseAction> {
        if !self.evicting.load(Relaxed) {
            return None;
        }
        let close_action = self.counters.eviction_close();
        if close_action.is_none() && !self.counters.is_closing() {
            self.evicting.store(false, Relaxed);
            self.server.eviction_declined();
        }
        close_action
    }
}

impl ConnCounters {
    /// For how long it has had no request in flight, in milliseconds, if it is to be closed when there is no room for others.
    /// The time of a client that has not sent one whole request counts ten times; of two that came just now, one that has
    /// been served goes first.
    fn idle_for(&self, now_ms: u64) -> Option<u64> {
        let since = |then: &AtomicU64| now_ms.saturating_sub(then.load(Relaxed));
        match self.state() {
            _ if self.is_closing() => None,
            ConnState::ProxyHeader
            | ConnState::TlsHandshake
            | ConnState::Silent
            | ConnState::HalfHead => Some(since(&self.since).saturating_mul(10)),
            ConnState::IdleHttp2 if !self.has_served() => {
                Some(since(&self.progress).saturating_mul(10))
            }
            ConnState::Idle | ConnState::IdleHttp2 => Some(since(&self.progress).saturating_add(1)),
            _ => None,
        }
    }

    /// What is to be done with a connection that is asked to make room for another; `None` if it is not idle.
    fn eviction_close(&self) -> Option<CloseAction> {
        match self.state() {
            ConnState::HalfHead if self.protocol() == Protocol::Http2 => Some(CloseAction::Abort),
            ConnState::Silent | ConnState::HalfHead | ConnState::Idle => Some(CloseAction::Close),
            // With a GOAWAY that says which stream was the last.
            ConnState::ProxyHeader | ConnState::TlsHandshake | ConnState::IdleHttp2 => {
                Some(CloseAction::Abort)
            }
            _ => None,
        }
    }
}
