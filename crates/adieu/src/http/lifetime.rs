//! How old a connection may become and how many requests it may have, and what is to be done with one that is past
//! that. No clock and no socket: the caller passes the time in.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::close_policy::{CloseAction, ConnCounters, ConnState, PolicyInput, Protocol, until};
use super::limits::Limits;

/// Two to the 64th, divided by the golden ratio: its multiples lie evenly, however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Where in a row the connection of this number stands, as a part of 2³². The parts of numbers that follow each other lie
/// evenly.
pub(super) const fn fraction(number: u64) -> u64 {
    number.wrapping_mul(GOLDEN) >> 32
}

/// Gives the connections of a server their lifetimes.
pub(super) struct Lifetimes(AtomicU64);

/// What one connection has. In milliseconds of the clock that the policy is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// From then on its client is asked to connect again.
    retires_at: u64,
    /// Requests still in flight then are cut.
    ends_at: u64,
    requests: Option<u32>,
}

impl Lifetimes {
    /// Servers that start together do not go through the same numbers.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(())))
    }

    pub(super) fn next(&self, limits: &Limits, now_ms: u64) -> Lifetime {
        if limits.max_connection_age == Duration::MAX {
            return Lifetime::new(limits, now_ms, 0);
        }
        Lifetime::new(limits, now_ms, self.0.fetch_add(1, Relaxed))
    }
}

impl Lifetime {
    pub(super) const UNLIMITED: Self = Self {
        retires_at: u64::MAX,
        ends_at: u64::MAX,
        requests: None,
    };

    /// The age is up to a tenth more or less, by the number of the connection.
    fn new(limits: &Limits, now_ms: u64, number: u64) -> Self {
        let most = limits.max_requests_per_connection;
        let mut lifetime = Self {
            requests: (most < u32::MAX).then_some(most.max(1)),
            ..Self::UNLIMITED
        };
        if limits.max_connection_age < Duration::MAX {
            let age = u128::from(millis(limits.max_connection_age));
            let part = u128::from(fraction(number));
            let age = age - age / 10 + ((age / 5 * part) >> 32);
            let age = u64::try_from(age).unwrap_or(u64::MAX);
            lifetime.retires_at = now_ms.saturating_add(age);
            lifetime.ends_at = lifetime
                .retires_at
                .saturating_add(millis(limits.max_connection_age_grace));
        }
        lifetime
    }

    pub(super) fn is_limited(&self) -> bool {
        *self != Self::UNLIMITED
    }

    /// Whether requests still in flight are cut.
    pub(super) const fn has_ended(&self, now_ms: u64) -> bool {
        now_ms >= self.ends_at
    }
}

impl ConnCounters {
    /// Whether the client is to be told to connect again.
    pub(super) fn is_retired(&self, lifetime: Lifetime, now_ms: u64) -> bool {
        now_ms >= lifetime.retires_at || lifetime.requests.is_some_and(|most| self.served() >= most)
    }

    /// Whether an HTTP/2 client has had the time to stop since its GOAWAY, and its further streams are refused.
    pub(super) fn refuses_streams(&self, lifetime: Lifetime, limits: &Limits, now_ms: u64) -> bool {
        // Those that crossed the GOAWAY are not refused: so many can be on their way.
        let crossed = |most: u32| self.served() >= most.saturating_add(limits.http2_streams);
        now_ms >= lifetime.refuses_at(limits) || lifetime.requests.is_some_and(crossed)
    }

    /// When an idle connection is closed because of its age or its requests, in milliseconds.
    pub(super) fn retired_until(&self, lifetime: Lifetime, limits: &Limits) -> u64 {
        if !lifetime.is_limited() {
            return u64::MAX;
        }
        let from = if self.is_retired(lifetime, 0) {
            0
        } else {
            lifetime.retires_at
        };
        let quiet = self.last_progress().saturating_add(millis(limits.linger));
        from.max(quiet).min(lifetime.ends_at)
    }

    /// What its age and its requests ask for while the service runs. As in a stop, a client that was active a moment ago
    /// may send one more request, whose response tells it to connect again.
    pub(super) fn retirement_action(&self, limits: &Limits, input: PolicyInput) -> CloseAction {
        let lifetime = input.lifetime;
        if !lifetime.is_limited() {
            return CloseAction::Wait(None);
        }
        let ago = |then: u64| Duration::from_millis(input.now_ms.saturating_sub(then));
        let at = |then: u64, close_action: CloseAction| match then {
            u64::MAX => CloseAction::Wait(None),
            then => until(
                Duration::from_millis(then),
                Duration::from_millis(input.now_ms),
                close_action,
            ),
        };
        let is_http2 = self.protocol() == Protocol::Http2;
        let state = self.state();
        let is_idle = matches!(
            state,
            ConnState::Silent | ConnState::Idle | ConnState::IdleHttp2
        );
        let end = match state {
            ConnState::ProxyHeader | ConnState::TlsHandshake | ConnState::AwaitingClose => {
                return CloseAction::Wait(None);
            }
            // Told already; the close has its own limit.
            _ if is_idle && is_http2 && self.is_closing() => return CloseAction::Wait(None),
            ConnState::WebSocket if self.closes_websocket() => {
                let since = self.since.load(Relaxed);
                return until(limits.patience, ago(since), CloseAction::Abort);
            }
            ConnState::WebSocket => CloseAction::CloseWebSocket,
            ConnState::HalfHead if !is_http2 => CloseAction::Close,
            _ if is_idle => CloseAction::Close,
            _ => CloseAction::Abort,
        };
        let end = at(lifetime.ends_at, end);
        let is_retired = self.is_retired(lifetime, input.now_ms);
        let next = if is_idle && is_retired {
            let mut quiet_for = ago(self.last_progress());
            // An HTTP/2 client gets its GOAWAY only now, and an HTTP/1 client gets no message.
            if is_http2 && input.now_ms >= lifetime.retires_at {
                quiet_for = quiet_for.min(ago(lifetime.retires_at));
            }
            until(limits.linger, quiet_for, CloseAction::Close)
        } else if (is_idle || is_http2) && !is_retired {
            at(lifetime.retires_at, CloseAction::Wait(None))
        } else if is_http2 {
            at(lifetime.refuses_at(limits), CloseAction::Wait(None))
        } else {
            CloseAction::Wait(None)
        };
        end.or_sooner(next)
    }
}

impl Lifetime {
    /// Once the client has had the linger.
    fn refuses_at(self, limits: &Limits) -> u64 {
        self.retires_at.saturating_add(millis(limits.linger))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "lifetime_table.rs"]
mod table;
