//! What has passed over one connection, and what is to be done with it. No clock and no socket: the caller passes the
//! time in.
//!
//! All counters are single words, written by the connection's own tasks and read by them or, for the report, by
//! others: nothing here needs more than relaxed order, because every decision is made again after the next
//! poll.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::lifetime::Lifetime;
use super::limits::Limits;
use crate::net::{CarriedCounters, DrainStage};

/// What the connection is doing as far as protocols go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Protocol {
    /// A proxy has yet to say who its client is.
    ProxyHeader,
    TlsHandshake,
    /// Waiting for enough bytes to tell HTTP/1 from HTTP/2.
    Detecting,
    Http1,
    Http2,
    WebSocket,
    Upgraded,
    /// We have said all; the client has yet to close its side.
    AwaitingClose,
}

/// The state of a connection, as its limits and the report see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnState {
    ProxyHeader,
    TlsHandshake,
    Silent,
    HalfHead,
    Idle,
    IdleHttp2,
    Working,
    /// A request is in flight, and its client has closed its side.
    HalfClosed,
    /// Every request in flight waits for the rest of its body.
    StalledUpload,
    /// Every response in flight waits for the client to read, or none can be written at all, or the last has yet to
    /// be taken.
    StalledReader,
    WebSocket,
    Upgraded,
    AwaitingClose,
}

/// What is to be done with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseAction {
    /// Nothing now; look again after this long, if at all.
    Wait(Option<Duration>),
    /// It has no request in flight: end it politely.
    Close,
    /// Tell the other end of the WebSocket that we go away.
    CloseWebSocket,
    /// Its time is up.
    Abort,
    /// It goes to the new process, as soon as that has room for it. Until then it is served.
    Move,
}

/// The time, and how far the stop has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyInput {
    pub(super) now_ms: u64,
    pub(super) stage: DrainStage,
    pub(super) lingering_for: Duration,
    pub(super) closing_for: Duration,
    /// The client has taken all that was written, as far as that can be known.
    pub(super) all_acknowledged: bool,
    /// In a stop, no state has more than this: several of them follow each other.
    pub(super) most: Duration,
    /// How long a connection that was active a moment ago stays after the linger.
    pub(super) idle_grace: Duration,
    /// How long a connection whose client has its whole response may stay.
    pub(super) until_final_cutoff: Duration,
    /// How old the connection may become.
    pub(super) lifetime: Lifetime,
    /// The new process takes connections such as this one.
    pub(super) has_successor: bool,
    /// In the lame-duck period: how long its client is not told to go elsewhere yet.
    pub(super) turn_left: Option<Duration>,
    /// In the lame-duck period: clients are asked to go elsewhere one after the other, and a WebSocket ends at its turn.
    pub(super) leaves_early: bool,
}

/// How long a client may take to read any of our last bytes; and to close its side, if it was active after the stop began:
/// it may write again before it looks, and should still find us.
pub(super) const CLOSE_WAIT: Duration = Duration::from_millis(200);
/// How long an idle client has to close its side, if it has all of it. What it had sent before that came is here by
/// then: its word that it has the last byte came after it on the same way. Kernels hold that word back for 40 ms.
pub(super) const CLOSE_WAIT_IDLE: Duration = Duration::from_millis(50);
/// A client that has sent nothing for so long has connected in advance, in milliseconds.
const FIRST_REQUEST_WAIT: u64 = 2_000;
/// How long the handler of a WebSocket has to send a close frame of its own before the driver sends one.
pub(super) const WS_HANDLER_GRACE: Duration = Duration::from_millis(100);

pub(super) struct ConnCounters {
    protocol: AtomicU8,
    /// Bytes of a head that is not whole yet.
    head_bytes: AtomicU32,
    heads_seen: AtomicU32,
    /// The number of the frame, or of the block of header fields, that an HTTP/2 client has begun and not ended; 0 if none.
    inside: AtomicU32,
    /// The client is in the middle of a body.
    in_body: AtomicBool,
    served: AtomicU32,
    under_way: AtomicU32,
    /// Requests of HTTP/2 whose stream their handler has for itself, as a WebSocket.
    tunnels: AtomicU32,
    /// Requests whose handler can go on only with more of the body.
    waiting: AtomicU32,
    /// Answers of which the transport holds bytes that the client has no room for yet.
    flushing: AtomicU32,
    waits_to_write: AtomicBool,
    /// The kernel has some of an answer that the client has not taken.
    untaken: AtomicBool,
    /// `untaken` was true at a look during the stop. It stays true: bytes that the client's kernel has acknowledged may still
    /// have to be read by the client.
    is_slow: AtomicBool,
    /// The last byte in or out, in milliseconds.
    pub(super) progress: AtomicU64,
    /// When the present head began, or the close, or the wait for the client to close its side, or the close of the WebSocket.
    pub(super) since: AtomicU64,
    /// When the client was seen to have closed its side; 0 if it has not.
    half_closed: AtomicU64,
    closing: AtomicBool,
    ws_close: AtomicBool,
}

impl CloseAction {
    /// The first of two to be due; this one if both are.
    pub(super) fn or_sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Wait(None), other) | (other, Self::Wait(None)) => other,
            (Self::Wait(Some(left)), Self::Wait(Some(other))) => Self::Wait(Some(left.min(other))),
            (Self::Wait(_), due) | (due, _) => due,
        }
    }
}

impl ConnState {
    /// In words, after "connection".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::ProxyHeader => "without a whole PROXY header",
            Self::TlsHandshake => "in the TLS handshake",
            Self::Silent => "silent",
            Self::HalfHead => "with half a request head",
            Self::Idle => "idle",
            Self::IdleHttp2 => "HTTP/2 without a stream",
            Self::Working => "working",
            Self::HalfClosed => "working, though its client has closed its side",
            Self::StalledUpload => "with a stalled upload",
            Self::StalledReader => "with a stalled reader",
            Self::WebSocket => "WebSocket without an answer to our close",
            Self::Upgraded => "upgraded",
            Self::AwaitingClose => "parting",
        }
    }
}

impl ConnCounters {
    pub(super) const fn new(now_ms: u64, first: Protocol) -> Self {
        Self {
            protocol: AtomicU8::new(first as u8),
            head_bytes: AtomicU32::new(0),
            heads_seen: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            in_body: AtomicBool::new(false),
            served: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            tunnels: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            flushing: AtomicU32::new(0),
            waits_to_write: AtomicBool::new(false),
            untaken: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            progress: AtomicU64::new(now_ms),
            since: AtomicU64::new(now_ms),
            half_closed: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            ws_close: AtomicBool::new(false),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        use Protocol::{
            AwaitingClose, Detecting, Http1, Http2, ProxyHeader, TlsHandshake, Upgraded, WebSocket,
        };
        [
            ProxyHeader,
            TlsHandshake,
            Detecting,
            Http1,
            Http2,
            WebSocket,
            Upgraded,
            AwaitingClose,
        ][usize::from(self.protocol.load(Relaxed)).min(7)]
    }

    pub(super) fn enter(&self, protocol: Protocol, now_ms: u64) {
        self.protocol.store(protocol as u8, Relaxed);
        if protocol == Protocol::AwaitingClose {
            self.since.store(now_ms, Relaxed);
        }
    }

    /// A connection that another process has accepted: it has had so many requests, and was quiet for so long.
    pub(super) fn carried(&self, now_ms: u64, counters: CarriedCounters) {
        self.served.store(counters.served, Relaxed);
        self.heads_seen.store(counters.served, Relaxed);
        self.progress
            .store(now_ms.saturating_sub(counters.idle_ms), Relaxed);
    }

    /// The bytes of the half head that came with it are counted, and its client gets no more time for the rest.
    pub(super) fn head_was_carried(&self, began_ms: u64, last_ms: u64) {
        if self.head_bytes.load(Relaxed) > 0 {
            self.since.store(began_ms, Relaxed);
            self.progress.store(last_ms, Relaxed);
        }
    }

    /// When the half head began that is there.
    pub(super) fn head_began(&self) -> Option<u64> {
        (self.head_bytes.load(Relaxed) > 0).then(|| self.since.load(Relaxed))
    }

    /// Whether it is between two requests of HTTP/1: what else was read of it is part of a head, or whole ones that no
    /// handler has seen, and can be read again elsewhere.
    fn is_between_requests(&self, state: ConnState) -> bool {
        let is_quiet = matches!(
            state,
            ConnState::Silent | ConnState::HalfHead | ConnState::Idle
        );
        is_quiet && self.protocol() != Protocol::Http2 && !self.is_in_body() && !self.is_closing()
    }

    /// Bytes came in, among them so many ends of heads; not all of them need be work.
    pub(super) fn read(&self, now_ms: u64, bytes: usize, heads: u32, in_body: bool, work: bool) {
        self.in_body.store(in_body, Relaxed);
        self.progressed(now_ms, work);
        if self.under_way.load(Relaxed) == 0 {
            if self.head_bytes.load(Relaxed) == 0 {
                self.since.store(now_ms, Relaxed);
            }
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX / 2);
            add(&self.head_bytes, bytes);
        }
        if heads > 0 {
            add(&self.heads_seen, heads);
        }
    }

    /// What an HTTP/2 client has begun to send and has not ended. However many bytes of it come, its time counts from its
    /// beginning.
    pub(super) fn is_inside(&self, now_ms: u64, unit: Option<u32>) {
        let unit = unit.unwrap_or(0);
        let before = self.inside.swap(unit, Relaxed);
        if unit != 0 && unit != before && !self.is_closing() {
            self.since.store(now_ms, Relaxed);
        }
    }

    /// With requests in flight, or a last answer that is being read, only what moves one of them on counts; without,
    /// any sign of life.
    fn progressed(&self, now_ms: u64, work: bool) {
        let is_idle = self.under_way.load(Relaxed) == 0 && !self.is_slow.load(Relaxed);
        if work || is_idle {
            self.progress.store(now_ms, Relaxed);
        }
    }

    pub(super) fn wrote(&self, now_ms: u64, work: bool) {
        self.progressed(now_ms, work);
        self.waits_to_write.store(false, Relaxed);
    }

    /// The client has taken some of what was written, though there is no room for more yet.
    pub(super) fn took_some(&self, now_ms: u64, all_acknowledged: bool) {
        if self.protocol() != Protocol::AwaitingClose {
            self.progress.store(now_ms, Relaxed);
        } else if !all_acknowledged {
            // The word that it has the last of it can be late, and gives it no more time.
            self.since.store(now_ms, Relaxed);
        }
    }

    /// Whether it could write until now.
    pub(super) fn cannot_write(&self) -> bool {
        !self.waits_to_write.swap(true, Relaxed)
    }

    /// Told at every look at the kernel.
    pub(super) fn is_untaken(&self, untaken: bool) {
        self.untaken.store(untaken, Relaxed);
    }

    /// In a stop, after every look at the kernel: remembers a client that has not taken all of a response yet.
    pub(super) fn mark_slow_reader(&self) {
        if self.untaken.load(Relaxed) {
            self.is_slow.store(true, Relaxed);
        }
    }

    pub(super) fn flushed(&self) {
        self.waits_to_write.store(false, Relaxed);
    }

    /// A request is whole up to its body. Not called at the same time as [`ConnCounters::end`].
    pub(super) fn begin(&self) {
        self.head_bytes.store(0, Relaxed);
        add(&self.served, 1);
        add(&self.under_way, 1);
    }

    /// The last byte of the answer is out, or the client does not want it any more. One at a time.
    pub(super) fn end(&self) {
        count(&self.under_way, false);
    }

    pub(super) fn last_progress(&self) -> u64 {
        self.progress.load(Relaxed)
    }

    /// One more stream is a tunnel, or one less. One at a time.
    #[cfg(any(test, feature = "http2"))]
    pub(super) fn tunnels(&self, begins: bool) {
        count(&self.tunnels, begins);
    }

    pub(super) fn body_is_awaited(&self, awaited: bool) {
        count(&self.waiting, awaited);
    }

    pub(super) fn answer_is_held(&self, held: bool) {
        count(&self.flushing, held);
    }

    /// The client has closed its side. The first time counts.
    pub(super) fn half_closed(&self, now_ms: u64) {
        if self.half_closed.load(Relaxed) == 0 {
            self.half_closed.store(now_ms.max(1), Relaxed);
        }
    }

    /// Whether the close begins with this call.
    pub(super) fn begin_close(&self, now_ms: u64) -> bool {
        self.since.store(now_ms, Relaxed);
        !self.closing.swap(true, Relaxed)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    pub(super) fn close_websocket(&self, now_ms: u64) {
        self.since.store(now_ms, Relaxed);
        self.ws_close.store(true, Relaxed);
    }

    pub(super) fn closes_websocket(&self) -> bool {
        self.ws_close.load(Relaxed)
    }

    /// Whether its client has had the time to send a first request, and has sent none.
    pub(super) fn awaits_first_request(&self, now_ms: u64) -> bool {
        !self.has_served() && self.last_progress() + FIRST_REQUEST_WAIT < now_ms
    }

    /// After how long it does, if nothing comes.
    pub(super) fn first_request_due_in(&self, now_ms: u64) -> Option<Duration> {
        let from = self.last_progress() + FIRST_REQUEST_WAIT + 1;
        let left = from.checked_sub(now_ms).filter(|left| *left > 0)?;
        (!self.has_served()).then(|| Duration::from_millis(left))
    }

    pub(super) fn has_served(&self) -> bool {
        self.served() > 0
    }

    /// Requests that a handler has seen.
    pub(super) fn served(&self) -> u32 {
        self.served.load(Relaxed)
    }

    /// Whether an HTTP/1 request is in flight of which this number of responses does not have one, and nothing written
    /// before waits to go out.
    pub(super) fn awaits_response(&self, responses: u32) -> bool {
        self.protocol() == Protocol::Http1
            && self.under_way.load(Relaxed) > 0
            && self.served.load(Relaxed) > responses
            && self.flushing.load(Relaxed) == 0
            && !self.waits_to_write.load(Relaxed)
    }

    pub(super) fn is_in_body(&self) -> bool {
        self.in_body.load(Relaxed)
    }

    /// Whether heads have come in that no handler has seen.
    pub(super) fn has_heads_waiting(&self) -> bool {
        self.heads_seen.load(Relaxed) > self.served.load(Relaxed)
    }

    pub(super) fn state(&self) -> ConnState {
        let protocol = self.protocol();
        match protocol {
            Protocol::ProxyHeader => ConnState::ProxyHeader,
            Protocol::TlsHandshake => ConnState::TlsHandshake,
            Protocol::WebSocket => ConnState::WebSocket,
            Protocol::Upgraded => ConnState::Upgraded,
            Protocol::AwaitingClose => ConnState::AwaitingClose,
            Protocol::Detecting | Protocol::Http1 | Protocol::Http2 => {
                let under_way = self.under_way.load(Relaxed);
                let flushing = self.flushing.load(Relaxed);
                // One handler that can go on keeps the connection: the others' clients are the same client.
                let waits = flushing + self.waiting.load(Relaxed);
                let tunnels = self.tunnels.load(Relaxed);
                let stuck = waits > 0 && waits + tunnels >= under_way;
                if self.waits_to_write.load(Relaxed) {
                    ConnState::StalledReader
                } else if under_way > 0 && stuck {
                    if flushing > 0 {
                        ConnState::StalledReader
                    } else {
                        ConnState::StalledUpload
                    }
                } else if under_way > 0 && tunnels >= under_way {
                    ConnState::Upgraded
                } else if under_way > 0 && self.half_closed.load(Relaxed) > 0 {
                    ConnState::HalfClosed
                } else if under_way > 0 {
                    ConnState::Working
                } else if protocol == Protocol::Http2 && self.untaken.load(Relaxed) {
                    ConnState::StalledReader
                } else if protocol == Protocol::Http2 && self.inside.load(Relaxed) > 0 {
                    ConnState::HalfHead
                } else if protocol == Protocol::Http2 {
                    ConnState::IdleHttp2
                } else if self.head_bytes.load(Relaxed) > 0 {
                    ConnState::HalfHead
                } else if self.has_served() {
                    ConnState::Idle
                } else {
                    ConnState::Silent
                }
            }
        }
    }

    /// Until when an idle connection may be kept while the service runs, in milliseconds; `None` for any other.
    pub(super) fn idle_until(&self, limits: &Limits, lifetime: Lifetime) -> Option<u64> {
        (self.state() == ConnState::Idle).then(|| {
            let keep_alive = u64::try_from(limits.keep_alive.as_millis()).unwrap_or(u64::MAX);
            let end = self.last_progress().saturating_add(keep_alive);
            end.min(self.retired_until(lifetime, limits))
        })
    }

    /// What is to be done at this moment.
    pub(super) fn close_action(&self, limits: &Limits, input: PolicyInput) -> CloseAction {
        let ago = |then: &AtomicU64| {
            Duration::from_millis(input.now_ms.saturating_sub(then.load(Relaxed)))
        };
        let (quiet_for, since) = (ago(&self.progress), ago(&self.since));
        let state = self.state();
        // As long as it takes bytes of the answer, it is there.
        let alone_for = quiet_for.min(ago(&self.half_closed));
        let patience = limits.patience.min(input.most);
        let stall = limits.stall_in_stop.min(input.most * 2);
        if state == ConnState::AwaitingClose {
            let was_idle = quiet_for > input.lingering_for;
            let limit = if input.all_acknowledged && was_idle {
                CLOSE_WAIT_IDLE
            } else {
                CLOSE_WAIT
            };
            return match until(limit.min(input.most), since, CloseAction::Abort) {
                CloseAction::Wait(Some(_)) if input.until_final_cutoff.is_zero() => {
                    CloseAction::Abort
                }
                CloseAction::Wait(Some(left)) => {
                    CloseAction::Wait(Some(left.min(input.until_final_cutoff)))
                }
                close_action => close_action,
            };
        }
        let is_http2 = self.protocol() == Protocol::Http2;
        // There is no answer to half a head in HTTP/2; the last GOAWAY says that it was not handled.
        let end_half_head = if is_http2 {
            CloseAction::Abort
        } else {
            CloseAction::Close
        };
        if input.stage < DrainStage::Lingering {
            let by_limit = match state {
                ConnState::ProxyHeader | ConnState::TlsHandshake => {
                    until(limits.handshake, since, CloseAction::Abort)
                }
                ConnState::HalfHead | ConnState::IdleHttp2 if self.is_closing() && is_http2 => {
                    until(limits.patience, since, CloseAction::Abort)
                }
                ConnState::HalfHead => until(limits.head, since, end_half_head),
                // It has yet to begin with its first head, and may not take longer for it than for the whole of it.
                ConnState::Silent => until(
                    limits.head.min(limits.keep_alive),
                    quiet_for,
                    CloseAction::Close,
                ),
                ConnState::Idle | ConnState::IdleHttp2 => {
                    until(limits.keep_alive, quiet_for, CloseAction::Close)
                }
                ConnState::StalledUpload | ConnState::StalledReader => {
                    until(limits.stall, quiet_for, CloseAction::Abort)
                }
                ConnState::HalfClosed => until(limits.stall, alone_for, CloseAction::Abort),
                ConnState::WebSocket if input.leaves_early && self.closes_websocket() => {
                    until(limits.patience, since, CloseAction::Abort)
                }
                ConnState::WebSocket if input.leaves_early => match input.turn_left {
                    Some(left) => CloseAction::Wait(Some(left)),
                    None => CloseAction::CloseWebSocket,
                },
                ConnState::Working
                | ConnState::WebSocket
                | ConnState::Upgraded
                | ConnState::AwaitingClose => CloseAction::Wait(None),
            };
            return by_limit.or_sooner(self.retirement_action(limits, input));
        }
        if input.has_successor && self.is_between_requests(state) {
            return CloseAction::Move;
        }
        match state {
            // However long it was quiet before: then it had more time.
            ConnState::StalledUpload | ConnState::StalledReader => until(
                stall,
                quiet_for.min(input.lingering_for),
                CloseAction::Abort,
            ),
            ConnState::HalfClosed => until(
                stall,
                alone_for.min(input.lingering_for),
                CloseAction::Abort,
            ),
            ConnState::WebSocket if !self.closes_websocket() => {
                // One whose handler may leave it to the new process ends by that.
                let grace = if input.has_successor {
                    input.most
                } else {
                    WS_HANDLER_GRACE.min(input.most)
                };
                until(grace, input.lingering_for, CloseAction::CloseWebSocket)
            }
            ConnState::WebSocket => until(patience, since, CloseAction::Abort),
            ConnState::Working | ConnState::AwaitingClose => CloseAction::Wait(None),
            _ if input.stage < DrainStage::Closing => CloseAction::Wait(None),
            ConnState::Idle => until(input.idle_grace, quiet_for, CloseAction::Close),
            ConnState::Silent => CloseAction::Close,
            ConnState::HalfHead => until(patience, input.closing_for, end_half_head),
            // As long as it makes room for more, it reads.
            ConnState::IdleHttp2 if self.is_slow.load(Relaxed) => until(
                patience,
                quiet_for.min(input.closing_for),
                CloseAction::Abort,
            ),
            ConnState::ProxyHeader
            | ConnState::TlsHandshake
            | ConnState::IdleHttp2
            | ConnState::Upgraded => until(patience, input.closing_for, CloseAction::Abort),
        }
    }
}

/// For a count that only one writes at a time: the task that reads, or the holder of the lock on the list of requests.
fn add(count: &AtomicU32, more: u32) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

/// One more, or one less.
fn count(number: &AtomicU32, more: bool) {
    add(number, if more { 1 } else { u32::MAX });
}

pub(super) fn until(limit: Duration, passed: Duration, then: CloseAction) -> CloseAction {
    match limit.checked_sub(passed).filter(|left| !left.is_zero()) {
        Some(left) => CloseAction::Wait(Some(left)),
        None => then,
    }
}

#[cfg(test)]
#[path = "close_policy_table.rs"]
mod table;
#[cfg(test)]
#[path = "close_policy_properties.rs"]
mod tests;
