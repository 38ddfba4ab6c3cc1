//! What is known of one connection, and what follows from it.
//!
//! The I/O wrapper and the request desk write down what they see; whoever minds the connection asks for a
//! [`Verdict`]. All facts are single words, written by the connection's own tasks and read by them or, for the
//! report, by others: nothing here needs more than relaxed order, because every decision is made again after
//! the next poll.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Uri};

use super::limits::Limits;
use crate::net::{Bell, Guest, Server, Tide, Wire};
use crate::sys;

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
    StalledUpload,
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

/// One request under way.
pub(super) struct Errand {
    pub(super) id: u64,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) began: Duration,
}

pub(super) struct Facts {
    pub(super) server: Arc<Server>,
    pub(super) wire: Wire,
    pub(super) limits: Arc<Limits>,
    /// Rings for the task that minds the connection.
    pub(super) bell: Bell,
    /// Rings for whoever reads an upgraded connection.
    pub(super) reader: Bell,
    /// Rings for whoever writes to it.
    pub(super) writer: Bell,
    stage: AtomicU8,
    /// Bytes of a head that is not whole yet.
    head_bytes: AtomicU32,
    heads_seen: AtomicU32,
    served: AtomicU32,
    under_way: AtomicU32,
    waits_for_body: AtomicBool,
    waits_to_write: AtomicBool,
    /// The last byte in or out, in milliseconds of the coarse clock.
    progress: AtomicU64,
    /// When the present head began, or the parting, or the close of the WebSocket.
    since: AtomicU64,
    pub(super) hung_up: AtomicBool,
    pub(super) ws_close: AtomicBool,
    pub(super) was_cut: AtomicBool,
    pub(super) gone: AtomicBool,
    errands: Mutex<Vec<Errand>>,
    next_errand: AtomicU64,
}

/// How long a client may take to close its side after our last word.
const PARTING: Duration = Duration::from_millis(200);
/// How long the handler of a WebSocket has to say goodbye in its own words before we do.
const SAY_IT_YOURSELF: Duration = Duration::from_millis(100);

fn now_ms() -> u64 {
    u64::try_from(sys::coarse_now().as_millis()).unwrap_or(u64::MAX)
}

impl Facts {
    pub(super) fn new(server: Arc<Server>, wire: Wire, limits: Arc<Limits>) -> Self {
        let now = now_ms();
        Self {
            server,
            wire,
            limits,
            bell: Bell::default(),
            reader: Bell::default(),
            writer: Bell::default(),
            stage: AtomicU8::new(Stage::Handshake as u8),
            head_bytes: AtomicU32::new(0),
            heads_seen: AtomicU32::new(0),
            served: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            waits_for_body: AtomicBool::new(false),
            waits_to_write: AtomicBool::new(false),
            progress: AtomicU64::new(now),
            since: AtomicU64::new(now),
            hung_up: AtomicBool::new(false),
            ws_close: AtomicBool::new(false),
            was_cut: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            errands: Mutex::default(),
            next_errand: AtomicU64::new(0),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        use Stage::{Detecting, Handshake, Http1, Http2, Parting, Upgraded, WebSocket};
        [
            Handshake, Detecting, Http1, Http2, WebSocket, Upgraded, Parting,
        ][usize::from(self.stage.load(Relaxed)).min(6)]
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
        if stage == Stage::Parting {
            self.since.store(now_ms(), Relaxed);
        }
    }

    /// Bytes came in, among them so many ends of heads.
    pub(super) fn read(&self, bytes: usize, heads: u32) {
        let now = now_ms();
        self.progress.store(now, Relaxed);
        self.waits_for_body.store(false, Relaxed);
        if self.under_way.load(Relaxed) == 0 {
            if self.head_bytes.load(Relaxed) == 0 {
                self.since.store(now, Relaxed);
            }
            self.head_bytes
                .fetch_add(u32::try_from(bytes).unwrap_or(u32::MAX / 2), Relaxed);
        }
        if heads > 0 {
            self.heads_seen.fetch_add(heads, Relaxed);
        }
    }

    pub(super) fn wrote(&self) {
        self.progress.store(now_ms(), Relaxed);
        self.waits_to_write.store(false, Relaxed);
    }

    pub(super) fn cannot_write(&self) {
        self.waits_to_write.store(true, Relaxed);
    }

    pub(super) fn waits_for_body(&self) {
        self.waits_for_body.store(true, Relaxed);
    }

    /// A request is whole up to its body.
    pub(super) fn begin(&self, method: Method, uri: Uri) -> u64 {
        self.head_bytes.store(0, Relaxed);
        self.served.fetch_add(1, Relaxed);
        self.under_way.fetch_add(1, Relaxed);
        let id = self.next_errand.fetch_add(1, Relaxed);
        let errand = Errand {
            id,
            method,
            uri,
            began: sys::coarse_now(),
        };
        self.errands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(errand);
        id
    }

    /// The answer is out, or nobody wants it any more.
    pub(super) fn end(&self, id: u64) -> Option<Errand> {
        self.under_way.fetch_sub(1, Relaxed);
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        let index = errands.iter().position(|errand| errand.id == id)?;
        Some(errands.swap_remove(index))
    }

    /// Whether the client has sent further requests behind the one being answered. Bodies that look like heads
    /// make this err on the side of keeping the connection.
    pub(super) fn has_more(&self) -> bool {
        self.heads_seen.load(Relaxed) > self.served.load(Relaxed) || self.wire.has_unread()
    }

    fn quiet_for(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.progress.load(Relaxed)))
    }

    fn since(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.since.load(Relaxed)))
    }

    pub(super) fn state(&self) -> State {
        let stage = self.stage();
        match stage {
            Stage::Handshake => State::Handshake,
            Stage::WebSocket => State::WebSocket,
            Stage::Upgraded => State::Upgraded,
            Stage::Parting => State::Parting,
            Stage::Detecting | Stage::Http1 | Stage::Http2 => {
                let working = self.under_way.load(Relaxed) > 0;
                if self.waits_to_write.load(Relaxed) {
                    State::StalledReader
                } else if working && self.waits_for_body.load(Relaxed) {
                    State::StalledUpload
                } else if working {
                    State::Working
                } else if stage == Stage::Http2 {
                    State::IdleHttp2
                } else if self.head_bytes.load(Relaxed) > 0 {
                    State::HalfHead
                } else if self.served.load(Relaxed) == 0 {
                    State::Silent
                } else {
                    State::Idle
                }
            }
        }
    }

    /// What is to be done at this moment.
    pub(super) fn verdict(&self) -> Verdict {
        let (state, limits) = (self.state(), &*self.limits);
        if self.server.tide() < Tide::Linger {
            return match state {
                State::Handshake => until(limits.handshake, self.since(), Verdict::Cut),
                State::HalfHead => until(limits.head, self.since(), Verdict::Cut),
                State::Silent | State::Idle | State::IdleHttp2 => {
                    until(limits.keep_alive, self.quiet_for(), Verdict::HangUp)
                }
                State::StalledUpload | State::StalledReader => {
                    until(limits.stall, self.quiet_for(), Verdict::Cut)
                }
                State::Parting => until(PARTING, self.since(), Verdict::Cut),
                State::Working | State::WebSocket | State::Upgraded => Verdict::Wait(None),
            };
        }
        let ebbed = self.server.tide() == Tide::Ebb;
        match state {
            State::Working => Verdict::Wait(None),
            State::StalledUpload | State::StalledReader => {
                until(limits.stall_in_stop, self.quiet_for(), Verdict::Cut)
            }
            State::Parting => until(PARTING, self.since(), Verdict::Cut),
            State::WebSocket if !self.ws_close.load(Relaxed) => until(
                SAY_IT_YOURSELF,
                self.server.since(Tide::Linger),
                Verdict::CloseWebSocket,
            ),
            State::WebSocket => until(limits.patience, self.since(), Verdict::Cut),
            _ if !ebbed => Verdict::Wait(None),
            State::Silent | State::Idle => Verdict::HangUp,
            State::Handshake | State::HalfHead | State::IdleHttp2 | State::Upgraded => {
                until(limits.patience, self.server.since(Tide::Ebb), Verdict::Cut)
            }
        }
    }

    pub(super) fn close_websocket(&self) {
        self.since.store(now_ms(), Relaxed);
        self.ws_close.store(true, Relaxed);
        self.reader.ring();
        self.writer.ring();
    }

    /// The state in words, with the peer and what it had asked for.
    pub(super) fn describe(&self, state: State) -> String {
        let what = match state {
            State::Handshake => "in the TLS handshake",
            State::Silent => "silent",
            State::HalfHead => "with half a request head",
            State::Idle => "idle",
            State::IdleHttp2 => "HTTP/2 without a stream",
            State::Working => "working",
            State::StalledUpload => "with a stalled upload",
            State::StalledReader => "with a stalled reader",
            State::WebSocket => "WebSocket without an answer to our close",
            State::Upgraded => "upgraded",
            State::Parting => "parting",
        };
        if matches!(state, State::Silent | State::Idle) {
            return format!("connection(s) {what}");
        }
        let errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        let requests: String = errands
            .iter()
            .take(3)
            .map(|errand| format!(", {errand}"))
            .collect();
        format!("connection {what}, from {}{requests}", self.wire.peer())
    }
}

impl std::fmt::Display for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let age = crate::duration::show(sys::coarse_now().saturating_sub(self.began));
        write!(f, "{} {} for {age}", self.method, self.uri.path())
    }
}

fn until(limit: Duration, passed: Duration, then: Verdict) -> Verdict {
    match limit.checked_sub(passed).filter(|left| !left.is_zero()) {
        Some(left) => Verdict::Wait(Some(left)),
        None => then,
    }
}

impl Guest for Facts {
    fn nudge(&self) {
        self.bell.ring();
    }

    fn requests(&self) -> u64 {
        self.errands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len() as u64
    }
}
