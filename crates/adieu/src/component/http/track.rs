//! What has passed over one connection, and what follows from it. No clock and no socket: whoever asks says
//! what time it is.
//!
//! All facts are single words, written by the connection's own tasks and read by them or, for the report, by
//! others: nothing here needs more than relaxed order, because every decision is made again after the next
//! poll.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::limits::Limits;
use crate::net::Tide;

/// What the connection is doing as far as protocols go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    Handshake,
    /// Waiting for enough bytes to tell HTTP/1 from HTTP/2.
    Detecting,
    Http1,
    Http2,
    WebSocket,
    Upgraded,
    /// We have said all; the client has yet to close its side.
    Parting,
}

/// The state of a connection, as its limits and the report see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Handshake,
    Silent,
    HalfHead,
    Idle,
    IdleHttp2,
    Working,
    /// The same, for a client that has closed its side.
    HalfClosed,
    /// Every request under way waits for the rest of its body.
    StalledUpload,
    /// Every answer under way waits for the client to read, or none can be written at all, or the last has yet to
    /// be taken.
    StalledReader,
    WebSocket,
    Upgraded,
    Parting,
}

/// What is to be done with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing now; look again after this long, if at all.
    Wait(Option<Duration>),
    /// It has nothing under way: end it politely.
    HangUp,
    /// Tell the other end of the WebSocket that we go away.
    CloseWebSocket,
    /// Its time is up.
    Cut,
}

/// The time, and how far the stop has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now_ms: u64,
    pub(super) tide: Tide,
    pub(super) since_linger: Duration,
    pub(super) since_ebb: Duration,
    /// The client has taken all that was written, as far as that can be known.
    pub(super) all_taken: bool,
    /// In a stop, no state has more than this: several of them follow each other.
    pub(super) most: Duration,
    /// How long a connection that was active a moment ago stays after the linger.
    pub(super) afterthought: Duration,
    /// How long whoever has all it wants may stay.
    pub(super) until_last_call: Duration,
}

/// How long a client may take for any of our last word; and to close its side, if it was active after the stop began:
/// it may write again before it looks, and should still find us.
pub(super) const PARTING: Duration = Duration::from_millis(200);
/// How long an idle client has to close its side, if it has all of it. What it had sent before that came is here by
/// then: its word that it has the last byte came after it on the same way. Kernels hold that word back for 40 ms.
pub(super) const PARTED: Duration = Duration::from_millis(50);
/// A client that has sent nothing for so long has connected in advance, in milliseconds.
const HESITATION: u64 = 2_000;
/// How long the handler of a WebSocket has to say goodbye in its own words before we do.
pub(super) const SAY_IT_YOURSELF: Duration = Duration::from_millis(100);

pub(super) struct Track {
    stage: AtomicU8,
    /// Bytes of a head that is not whole yet.
    head_bytes: AtomicU32,
    heads_seen: AtomicU32,
    /// The client is in the middle of a body.
    in_body: AtomicBool,
    served: AtomicU32,
    under_way: AtomicU32,
    /// Requests whose handler can go on only with more of the body.
    waiting: AtomicU32,
    /// Answers of which the transport holds bytes that the client has no room for yet.
    flushing: AtomicU32,
    waits_to_write: AtomicBool,
    /// The kernel has some of an answer that the client has not taken.
    untaken: AtomicBool,
    /// So it was in the stop: what the client has taken it may still have to read, on its side.
    is_slow: AtomicBool,
    /// The last byte in or out, in milliseconds.
    progress: AtomicU64,
    /// When the present head began, or the hanging up, or the parting, or the close of the WebSocket.
    since: AtomicU64,
    /// When the client was seen to have closed its side; 0 if it has not.
    half_closed: AtomicU64,
    hung_up: AtomicBool,
    ws_close: AtomicBool,
}

impl State {
    /// In words, after "connection".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Handshake => "in the TLS handshake",
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
            Self::Parting => "parting",
        }
    }
}

impl Track {
    pub(super) const fn new(now_ms: u64, first: Stage) -> Self {
        Self {
            stage: AtomicU8::new(first as u8),
            head_bytes: AtomicU32::new(0),
            heads_seen: AtomicU32::new(0),
            in_body: AtomicBool::new(false),
            served: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            flushing: AtomicU32::new(0),
            waits_to_write: AtomicBool::new(false),
            untaken: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            progress: AtomicU64::new(now_ms),
            since: AtomicU64::new(now_ms),
            half_closed: AtomicU64::new(0),
            hung_up: AtomicBool::new(false),
            ws_close: AtomicBool::new(false),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        use Stage::{Detecting, Handshake, Http1, Http2, Parting, Upgraded, WebSocket};
        [
            Handshake, Detecting, Http1, Http2, WebSocket, Upgraded, Parting,
        ][usize::from(self.stage.load(Relaxed)).min(6)]
    }

    pub(super) fn enter(&self, stage: Stage, now_ms: u64) {
        self.stage.store(stage as u8, Relaxed);
        if stage == Stage::Parting {
            self.since.store(now_ms, Relaxed);
        }
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

    /// With requests under way, or a last answer that is being read, only what moves one of them on counts; without,
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
    pub(super) fn took_some(&self, now_ms: u64, all_taken: bool) {
        if self.stage() != Stage::Parting {
            self.progress.store(now_ms, Relaxed);
        } else if !all_taken {
            // The word that it has the last of it can be late, and gives it no more time.
            self.since.store(now_ms, Relaxed);
        }
    }

    /// Whether this is news.
    pub(super) fn cannot_write(&self) -> bool {
        !self.waits_to_write.swap(true, Relaxed)
    }

    /// Told at every look at the kernel.
    pub(super) fn is_untaken(&self, untaken: bool) {
        self.untaken.store(untaken, Relaxed);
    }

    /// In a stop, after that.
    pub(super) fn look_at_its_pace(&self) {
        if self.untaken.load(Relaxed) {
            self.is_slow.store(true, Relaxed);
        }
    }

    pub(super) fn flushed(&self) {
        self.waits_to_write.store(false, Relaxed);
    }

    /// A request is whole up to its body. Not called at the same time as [`Track::end`].
    pub(super) fn begin(&self) {
        self.head_bytes.store(0, Relaxed);
        add(&self.served, 1);
        add(&self.under_way, 1);
    }

    /// The last byte of the answer is out, or nobody wants it any more. One at a time.
    pub(super) fn end(&self) {
        count(&self.under_way, false);
    }

    pub(super) fn last_progress(&self) -> u64 {
        self.progress.load(Relaxed)
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

    /// Whether this is news.
    pub(super) fn hang_up(&self, now_ms: u64) -> bool {
        self.since.store(now_ms, Relaxed);
        !self.hung_up.swap(true, Relaxed)
    }

    pub(super) fn has_hung_up(&self) -> bool {
        self.hung_up.load(Relaxed)
    }

    pub(super) fn close_websocket(&self, now_ms: u64) {
        self.since.store(now_ms, Relaxed);
        self.ws_close.store(true, Relaxed);
    }

    pub(super) fn closes_websocket(&self) -> bool {
        self.ws_close.load(Relaxed)
    }

    /// Whether its client has had the time to send a first request, and has sent none.
    pub(super) fn hesitates(&self, now_ms: u64) -> bool {
        !self.has_served() && self.last_progress() + HESITATION < now_ms
    }

    /// After how long it does, if nothing comes.
    pub(super) fn hesitates_in(&self, now_ms: u64) -> Option<Duration> {
        let from = self.last_progress() + HESITATION + 1;
        let left = from.checked_sub(now_ms).filter(|left| *left > 0)?;
        (!self.has_served()).then(|| Duration::from_millis(left))
    }

    pub(super) fn has_served(&self) -> bool {
        self.served.load(Relaxed) > 0
    }

    pub(super) fn is_in_body(&self) -> bool {
        self.in_body.load(Relaxed)
    }

    /// Whether heads have come in that no handler has seen.
    pub(super) fn has_heads_waiting(&self) -> bool {
        self.heads_seen.load(Relaxed) > self.served.load(Relaxed)
    }

    pub(super) fn state(&self) -> State {
        let stage = self.stage();
        match stage {
            Stage::Handshake => State::Handshake,
            Stage::WebSocket => State::WebSocket,
            Stage::Upgraded => State::Upgraded,
            Stage::Parting => State::Parting,
            Stage::Detecting | Stage::Http1 | Stage::Http2 => {
                let under_way = self.under_way.load(Relaxed);
                let flushing = self.flushing.load(Relaxed);
                // One handler that can go on keeps the connection: the others' clients are the same client.
                let stuck = flushing + self.waiting.load(Relaxed) >= under_way;
                if self.waits_to_write.load(Relaxed) {
                    State::StalledReader
                } else if under_way > 0 && stuck {
                    if flushing > 0 {
                        State::StalledReader
                    } else {
                        State::StalledUpload
                    }
                } else if under_way > 0 && self.half_closed.load(Relaxed) > 0 {
                    State::HalfClosed
                } else if under_way > 0 {
                    State::Working
                } else if stage == Stage::Http2 && self.untaken.load(Relaxed) {
                    State::StalledReader
                } else if stage == Stage::Http2 {
                    State::IdleHttp2
                } else if self.head_bytes.load(Relaxed) > 0 {
                    State::HalfHead
                } else if self.has_served() {
                    State::Idle
                } else {
                    State::Silent
                }
            }
        }
    }

    /// Until when an idle connection may be kept while the service runs, in milliseconds; `None` for any other.
    pub(super) fn idle_until(&self, limits: &Limits) -> Option<u64> {
        (self.state() == State::Idle).then(|| {
            let keep_alive = u64::try_from(limits.keep_alive.as_millis()).unwrap_or(u64::MAX);
            self.last_progress().saturating_add(keep_alive)
        })
    }

    /// What is to be done at this moment.
    pub(super) fn verdict(&self, limits: &Limits, moment: Moment) -> Verdict {
        let ago = |then: &AtomicU64| {
            Duration::from_millis(moment.now_ms.saturating_sub(then.load(Relaxed)))
        };
        let (quiet_for, since) = (ago(&self.progress), ago(&self.since));
        let state = self.state();
        // As long as it takes bytes of the answer, it is there.
        let alone_for = quiet_for.min(ago(&self.half_closed));
        let patience = limits.patience.min(moment.most);
        let stall = limits.stall_in_stop.min(moment.most * 2);
        if state == State::Parting {
            let was_idle = quiet_for > moment.since_linger;
            let limit = if moment.all_taken && was_idle {
                PARTED
            } else {
                PARTING
            };
            return match until(limit.min(moment.most), since, Verdict::Cut) {
                Verdict::Wait(Some(_)) if moment.until_last_call.is_zero() => Verdict::Cut,
                Verdict::Wait(Some(left)) => Verdict::Wait(Some(left.min(moment.until_last_call))),
                verdict => verdict,
            };
        }
        if moment.tide < Tide::Linger {
            return match state {
                State::Handshake => until(limits.handshake, since, Verdict::Cut),
                State::HalfHead => until(limits.head, since, Verdict::HangUp),
                State::IdleHttp2 if self.has_hung_up() => {
                    until(limits.patience, since, Verdict::Cut)
                }
                State::Silent | State::Idle | State::IdleHttp2 => {
                    until(limits.keep_alive, quiet_for, Verdict::HangUp)
                }
                State::StalledUpload | State::StalledReader => {
                    until(limits.stall, quiet_for, Verdict::Cut)
                }
                State::HalfClosed => until(limits.stall, alone_for, Verdict::Cut),
                State::Working | State::WebSocket | State::Upgraded | State::Parting => {
                    Verdict::Wait(None)
                }
            };
        }
        match state {
            // However long it was quiet before: then it had more time.
            State::StalledUpload | State::StalledReader => {
                until(stall, quiet_for.min(moment.since_linger), Verdict::Cut)
            }
            State::HalfClosed => until(stall, alone_for.min(moment.since_linger), Verdict::Cut),
            State::WebSocket if !self.closes_websocket() => until(
                SAY_IT_YOURSELF.min(moment.most),
                moment.since_linger,
                Verdict::CloseWebSocket,
            ),
            State::WebSocket => until(patience, since, Verdict::Cut),
            State::Working | State::Parting => Verdict::Wait(None),
            _ if moment.tide < Tide::Ebb => Verdict::Wait(None),
            State::Idle => until(moment.afterthought, quiet_for, Verdict::HangUp),
            State::Silent => Verdict::HangUp,
            State::HalfHead => until(patience, moment.since_ebb, Verdict::HangUp),
            // As long as it makes room for more, it reads.
            State::IdleHttp2 if self.is_slow.load(Relaxed) => {
                until(patience, quiet_for.min(moment.since_ebb), Verdict::Cut)
            }
            State::Handshake | State::IdleHttp2 | State::Upgraded => {
                until(patience, moment.since_ebb, Verdict::Cut)
            }
        }
    }
}

/// For a count that only one writes at a time: the task that reads, or whoever holds the list of requests.
fn add(count: &AtomicU32, more: u32) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

/// One more, or one less.
fn count(number: &AtomicU32, more: bool) {
    add(number, if more { 1 } else { u32::MAX });
}

fn until(limit: Duration, passed: Duration, then: Verdict) -> Verdict {
    match limit.checked_sub(passed).filter(|left| !left.is_zero()) {
        Some(left) => Verdict::Wait(Some(left)),
        None => then,
    }
}

#[cfg(test)]
#[path = "track_tests.rs"]
mod tests;
