//! What the tasks of one connection share: its counters, its requests in flight, its socket, and the wakers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Context;
use std::time::Duration;

use adieu_core::race;
use http::{Method, Uri};

use super::close_policy::{
    CLOSE_WAIT_IDLE, CloseAction, ConnCounters, ConnState, PolicyInput, Protocol,
};
use super::lifetime::Lifetime;
use super::limits::Limits;
use super::spread::TurnToGo;
use super::websocket::SharedWs;
#[cfg(feature = "axum")]
use crate::net::Kind;
use crate::net::{
    Activity, CarriedCounters, DrainStage, Handshake, ManagedConnection, Server, SharedSocket,
    Successor, WakerCell,
};
use crate::util::printable;
use crate::util::sys;

/// One request in flight.
pub(super) struct InFlightRequest {
    id: u64,
    method: Method,
    uri: Uri,
    /// The task that answers it, if it has one of its own; else 0.
    task: u64,
    /// When its last bytes came in, in milliseconds.
    began: u64,
    /// Its handler waits for the body.
    waits: bool,
    /// Both sides speak when they have something to say, as in a call of gRPC: it may well pause.
    is_conversation: bool,
    /// Who has a hold on it.
    holds: u32,
    /// Those of them that are pieces of the answer, on their way out.
    pieces: u32,
    /// The answer has come to its end, and no piece of it was dropped half-way.
    is_whole: bool,
}

pub(super) struct ConnShared {
    pub(super) server: Arc<Server>,
    pub(super) socket: SharedSocket,
    pub(super) limits: Arc<Limits>,
    pub(super) lifetime: Lifetime,
    /// When in the lame-duck period its client is asked to go elsewhere.
    pub(super) turn: TurnToGo,
    pub(super) counters: ConnCounters,
    /// Wakes the driver of the connection.
    pub(super) waker: WakerCell,
    /// Wakes the task that reads an upgraded connection.
    pub(super) reader: WakerCell,
    /// Wakes the task that writes to it.
    pub(super) writer: WakerCell,
    pub(super) was_cut: AtomicBool,
    pub(super) gone: AtomicBool,
    /// It is offered to the new process, and not this one's to shut down.
    pub(super) is_offered: AtomicBool,
    /// Its bytes are the client's own, and not those of TLS.
    is_plain: bool,
    /// When it was accepted, here or in the process that it came from, in milliseconds.
    accepted: u64,
    /// Responses that handlers have given to hyper.
    responses: AtomicU32,
    /// A request of it was a call of gRPC.
    pub(super) is_grpc: AtomicBool,
    /// A request of it was cut, and is in the report.
    has_lost: AtomicBool,
    /// It is to be closed to make room for another, if it is idle.
    pub(super) evicting: AtomicBool,
    /// Where we can have a word with the client of a WebSocket.
    line: OnceLock<SharedWs>,
    /// What a route wants to do with its WebSocket.
    #[cfg(feature = "websocket")]
    pub(super) upgrade: super::ws_upgrade::UpgradeSlot,
    /// What is known of the stream of events that is its present response.
    #[cfg(feature = "axum")]
    pub(super) events: super::sse_slot::EventSlot,
    /// What the kernel had left to send when we last looked.
    pub(super) unacknowledged: AtomicU32,
    /// How much of it at most, at its end, was our talk about the connection, and no answer.
    pub(super) control_bytes: AtomicU32,
    in_flight: Mutex<InFlightRequests>,
}

#[derive(Default)]
struct InFlightRequests {
    under_way: Vec<InFlightRequest>,
    next: u64,
}

impl InFlightRequests {
    fn find(&self, id: u64) -> Option<usize> {
        self.under_way.iter().position(|request| request.id == id)
    }
}

/// How often to look whether a client that we cannot write to takes anything.
const STALL_LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The close code of a WebSocket in a stop; and in one after which another process has the listener.
const GOING_AWAY: u16 = 1001;
const SERVICE_RESTART: u16 = 1012;

pub(super) fn now_ms() -> u64 {
    u64::try_from(sys::coarse_now().as_millis()).unwrap_or(u64::MAX)
}

impl ConnShared {
    pub(super) fn new(
        server: Arc<Server>,
        socket: SharedSocket,
        limits: Arc<Limits>,
        lifetime: Lifetime,
        turn: TurnToGo,
        handshake: &Handshake,
    ) -> Self {
        let now_ms = now_ms();
        let first = if handshake.awaits_header(&socket) {
            Protocol::ProxyHeader
        } else if handshake.is_tls() {
            Protocol::TlsHandshake
        } else {
            Protocol::Detecting
        };
        let counters = ConnCounters::new(now_ms, first);
        let carried = socket.carried_counters();
        if let Some(carried) = carried {
            counters.carried(now_ms, carried);
        }
        let carried = carried.unwrap_or_default();
        Self {
            server,
            socket,
            limits,
            lifetime,
            turn,
            counters,
            is_offered: AtomicBool::new(false),
            is_plain: !handshake.is_tls(),
            accepted: now_ms.saturating_sub(carried.age_ms),
            waker: WakerCell::default(),
            reader: WakerCell::default(),
            writer: WakerCell::default(),
            was_cut: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            responses: AtomicU32::new(carried.served),
            is_grpc: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            evicting: AtomicBool::new(false),
            line: OnceLock::new(),
            #[cfg(feature = "websocket")]
            upgrade: Default::default(),
            #[cfg(feature = "axum")]
            events: Default::default(),
            unacknowledged: AtomicU32::new(0),
            control_bytes: AtomicU32::new(0),
            in_flight: Mutex::default(),
        }
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlightRequests> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is whole up to its body.
    pub(super) fn begin(&self, method: Method, uri: Uri) -> u64 {
        let mut in_flight = self.in_flight();
        self.counters.begin();
        let id = in_flight.next;
        in_flight.next += 1;
        in_flight.under_way.push(InFlightRequest {
            id,
            method,
            uri,
            task: 0,
            began: self.counters.last_progress(),
            waits: false,
            is_conversation: false,
            holds: 1,
            pieces: 0,
            is_whole: false,
        });
        id
    }

    /// A handler has given its response to hyper.
    pub(super) fn responds(&self) {
        self.responses.fetch_add(1, Relaxed);
    }

    /// Whether the client of an HTTP/1 request in flight has got nothing of its response, and is at no other's end.
    pub(super) fn owes_http1_response(&self) -> bool {
        self.counters.awaits_response(self.responses.load(Relaxed))
    }

    /// The request that began last.
    #[cfg(feature = "http2")]
    pub(super) fn last_request(&self) -> Option<u64> {
        self.in_flight().next.checked_sub(1)
    }

    /// What the client of the request that began last has asked for.
    #[cfg(feature = "axum")]
    pub(super) fn last_target(&self) -> Option<String> {
        let in_flight = self.in_flight();
        let last = in_flight.under_way.iter().max_by_key(|it| it.id);
        last.map(|last| last.uri.to_string())
    }

    /// A request has a task of its own.
    #[cfg(feature = "http2")]
    pub(super) fn runs_in(&self, id: u64, task: u64) {
        let mut in_flight = self.in_flight();
        if let Some(index) = in_flight.find(id) {
            in_flight.under_way[index].task = task;
        }
    }

    /// The stream of a request in flight is a tunnel now, and has a hold on it.
    #[cfg(feature = "http2")]
    pub(super) fn begin_tunnel(&self, id: u64) -> bool {
        let mut in_flight = self.in_flight();
        let Some(index) = in_flight.find(id) else {
            return false;
        };
        in_flight.under_way[index].holds += 1;
        self.counters.tunnels(true);
        true
    }

    /// The stream is over, or its handler has let go of it.
    #[cfg(feature = "http2")]
    pub(super) fn end_tunnel(&self) {
        let _one_at_a_time = self.in_flight();
        self.counters.tunnels(false);
    }

    /// One hold less, a piece's if it says whether it was written. With the last one the request ends: its answer is
    /// out, or the client does not want it any more; if not all of it is out, it is looked at for the last time.
    pub(super) fn release_hold(
        &self,
        id: u64,
        written: Option<bool>,
        look: impl FnOnce(&InFlightRequest),
    ) {
        let mut in_flight = self.in_flight();
        let Some(index) = in_flight.find(id) else {
            return;
        };
        let request = &mut in_flight.under_way[index];
        request.holds -= 1;
        if let Some(written) = written {
            request.is_whole &= written;
            let before = request.is_stuck();
            request.pieces -= 1;
            self.tell(before, request.is_stuck());
        }
        if request.holds > 0 {
            return;
        }
        if !request.is_whole {
            look(request);
        } else if self.server.drain_stage() > DrainStage::Serving {
            self.server.counts.request_was_answered();
        }
        self.tell(request.is_stuck(), None);
        // Dropped where it is, and not moved out first.
        let last = in_flight.under_way.len() - 1;
        if index < last {
            in_flight.under_way.swap(index, last);
        }
        in_flight.under_way.truncate(last);
        self.counters.end();
        // Under the lock that is taken to see whether it is idle: one of the two sees what the other did.
        if last == 0 && self.server.has_clients_waiting() {
            self.server.notify_waiting_clients();
        }
    }

    /// The transport gets a piece of the answer, which has a hold of its own.
    pub(super) fn add_hold(&self, id: u64, is_last: bool) {
        let mut in_flight = self.in_flight();
        if let Some(index) = in_flight.find(id) {
            let request = &mut in_flight.under_way[index];
            if is_last {
                request.has_all();
            }
            request.holds += 1;
            let before = request.is_stuck();
            request.pieces += 1;
            self.tell(before, request.is_stuck());
        }
    }

    /// The transport has got the last of the answer.
    pub(super) fn response_complete(&self, id: u64) {
        self.change(id, InFlightRequest::has_all);
    }

    /// The handler of a request waits for its body, or has got some of it, or gave it up.
    pub(super) fn body_is_awaited(&self, id: u64, waits: bool) {
        self.change(id, |request| request.waits = waits);
    }

    /// The answer to a request with a body has begun, and its client may pause as it likes.
    pub(super) fn is_conversation(&self, id: u64) {
        self.change(id, |request| request.is_conversation = true);
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut InFlightRequest)) {
        let mut in_flight = self.in_flight();
        let Some(index) = in_flight.find(id) else {
            return;
        };
        let request = &mut in_flight.under_way[index];
        let before = request.is_stuck();
        change(request);
        self.tell(before, request.is_stuck());
    }

    /// What a request waits for of its client has changed. It counts once, whatever it waits for.
    fn tell(&self, before: Option<Stuck>, after: Option<Stuck>) {
        if before == after {
            return;
        }
        for (stuck, waits) in [(before, false), (after, true)] {
            match stuck {
                Some(Stuck::Body) => self.counters.body_is_awaited(waits),
                Some(Stuck::Answer) => self.counters.answer_is_held(waits),
                None => {}
            }
        }
        // A stream has a task of its own, and the driver of the connection has yet to see that it waits.
        if after == Some(Stuck::Body) && self.counters.protocol() == Protocol::Http2 {
            self.waker.wake();
        }
    }

    /// Whether the client has sent further requests behind the one being answered.
    pub(super) fn has_more(&self) -> bool {
        // What is still to come of a body is nothing further.
        self.counters.has_heads_waiting()
            || (!self.counters.is_in_body() && self.socket.has_unread())
    }

    /// The new process, from the beginning of the stop on, if this connection can move to it.
    pub(super) fn successor(&self) -> Option<&Arc<Successor>> {
        self.server.successor().filter(|_| self.is_plain)
    }

    fn may_move(&self, state: ConnState) -> bool {
        match state {
            #[cfg(feature = "websocket")]
            ConnState::WebSocket => self.websocket_successor().is_some(),
            _ => self.successor().is_some(),
        }
    }

    /// The new process, if this is a WebSocket whose handler may leave it to that.
    #[cfg(feature = "websocket")]
    pub(super) fn websocket_successor(&self) -> Option<&Arc<Successor>> {
        if !self.is_plain || !self.upgrade.may_move() {
            return None;
        }
        self.server.successor_for(Kind::WebSocket)
    }

    /// What travels with it, beside the bytes that were read and not handled.
    pub(super) fn carried_counters(&self) -> CarriedCounters {
        let now_ms = now_ms();
        let counters = &self.counters;
        CarriedCounters {
            served: counters.served(),
            age_ms: now_ms.saturating_sub(self.accepted),
            idle_ms: now_ms.saturating_sub(counters.last_progress()),
            head_ms: counters
                .head_began()
                .map_or(0, |began| now_ms.saturating_sub(began)),
        }
    }

    /// Whether no further stream of an HTTP/2 client is to be taken.
    pub(super) fn should_refuse_streams(&self) -> bool {
        let is_overdue = || {
            let limits = &self.limits;
            self.counters
                .refuses_streams(self.lifetime, limits, now_ms())
        };
        self.server.drain_stage() == DrainStage::Closing
            || self.counters.is_closing()
            || self.lifetime.is_limited() && is_overdue()
    }

    /// Whether it is so old, or has had so many requests, that its client is to connect again.
    pub(super) fn is_retired(&self) -> bool {
        self.lifetime.is_limited() && self.counters.is_retired(self.lifetime, now_ms())
    }

    /// Whether it is cut at the end of its grace.
    pub(super) fn is_cut_for_age(&self) -> bool {
        self.was_cut.load(Relaxed)
            && self.lifetime.is_limited()
            && self.lifetime.has_ended(now_ms())
    }

    /// How long its client is not told to go elsewhere yet, though the stop is announced; `None` otherwise.
    pub(super) fn turn_left(&self) -> Option<Duration> {
        if self.server.drain_stage() != DrainStage::Announced {
            return None;
        }
        self.turn.left(self.server.stage_age(DrainStage::Announced))
    }

    /// Whether it is time to tell an HTTP/2 client to go elsewhere: not before it got its first answer, or a
    /// client that connects during the announcement would find no server that talks to it. One that has connected
    /// long ago and asked for nothing is in no hurry.
    pub(super) fn should_announce_goaway(&self) -> bool {
        match self.server.drain_stage() {
            _ if self.is_retired() => true,
            DrainStage::Serving => false,
            DrainStage::Announced if self.turn_left().is_some() => false,
            DrainStage::Announced | DrainStage::Lingering => {
                self.counters.has_served() || self.counters.awaits_first_request(now_ms())
            }
            DrainStage::Closing => true,
        }
    }

    /// When its time is up if nothing comes, in milliseconds: of a connection that waits for its next request, while
    /// the service runs. For all others there is more to it than that.
    pub(super) fn idle_until(&self) -> Option<u64> {
        let is_calm =
            self.server.drain_stage() == DrainStage::Serving && !self.evicting.load(Relaxed);
        is_calm
            .then(|| self.counters.idle_until(&self.limits, self.lifetime))
            .flatten()
    }

    /// What is to be done at this moment, and which it is, in milliseconds.
    pub(super) fn close_action(&self) -> (CloseAction, u64) {
        let stage = self.server.drain_stage();
        #[cfg(feature = "websocket")]
        if self.upgrade.is_left() {
            // It waits for its turn, and has the rest of the drain for it.
            return (CloseAction::Wait(None), now_ms());
        }
        #[cfg(feature = "axum")]
        if self.events.is_left() && self.moves_events() {
            return (CloseAction::Move, now_ms());
        }
        if stage >= DrainStage::Lingering && self.counters.state() == ConnState::IdleHttp2 {
            self.refresh_unacknowledged();
        }
        if stage >= DrainStage::Lingering {
            self.counters.mark_slow_reader();
        }
        let state = self.counters.state();
        let now_ms = now_ms();
        // Often enough to know when the client took the last byte.
        let look = match state {
            ConnState::StalledReader => STALL_LOOK_INTERVAL,
            ConnState::AwaitingClose => CLOSE_WAIT_IDLE,
            _ => Duration::MAX,
        };
        let took_some = look < Duration::MAX && self.refresh_unacknowledged();
        let all_acknowledged = self.unacknowledged.load(Relaxed) == 0;
        if took_some {
            self.counters.took_some(now_ms, all_acknowledged);
        }
        let input = PolicyInput {
            now_ms,
            stage,
            lingering_for: self.server.stage_age(DrainStage::Lingering),
            closing_for: self.server.stage_age(DrainStage::Closing),
            all_acknowledged,
            most: self.server.clamp_to_drain(Duration::MAX / 4),
            idle_grace: self.server.idle_grace(),
            until_final_cutoff: self.server.until_final_cutoff(),
            lifetime: self.lifetime,
            has_successor: self.may_move(state),
            turn_left: self.turn_left(),
            leaves_early: !self.limits.spread.is_zero() && stage == DrainStage::Announced,
        };
        // An HTTP/2 client without a request gets its GOAWAY then, if the driver looks.
        let hesitation = match stage {
            DrainStage::Announced if self.counters.protocol() == Protocol::Http2 => {
                let due = self.counters.first_request_due_in(now_ms);
                due.max(input.turn_left)
            }
            _ => None,
        };
        let look = if all_acknowledged {
            Duration::MAX
        } else {
            look
        };
        let look = look.min(hesitation.unwrap_or(Duration::MAX));
        if stage < DrainStage::Lingering
            && let Some(close_action) = self.eviction_action()
        {
            return (close_action, now_ms);
        }
        let close_action = match self.counters.close_action(&self.limits, input) {
            CloseAction::Wait(left) if look < Duration::MAX => {
                CloseAction::Wait(Some(left.map_or(look, |left| left.min(look))))
            }
            close_action => close_action,
        };
        (close_action, now_ms)
    }

    /// The new process, if the present response is a stream of events that may move to it.
    #[cfg(feature = "axum")]
    pub(super) fn events_successor(&self) -> Option<&Arc<Successor>> {
        if !self.is_plain || !self.events.may_move() {
            return None;
        }
        self.server.successor_for(Kind::EventStream)
    }

    /// Whether the handler of the stream is to leave it now.
    #[cfg(feature = "axum")]
    pub(super) fn is_time_to_leave_events(&self) -> bool {
        self.server.drain_stage() >= DrainStage::Lingering && self.events_successor().is_some()
    }

    /// Until a stream of events is to end: when idle connections are closed, or before, at the turn of its connection.
    pub(super) async fn until_events_end(&self) {
        let server = &self.server;
        if self.limits.spread.is_zero() {
            return server.closing.wait().await;
        }
        let turn = async {
            server.core.announced.wait().await;
            tokio::time::sleep(self.turn.after()).await;
        };
        // Both only say that it is time.
        race(server.closing.wait(), turn).await;
    }

    /// Whether a stream of events that its handler has left goes to the new process now. If it cannot, it ends here.
    #[cfg(feature = "axum")]
    fn moves_events(&self) -> bool {
        let state = self.counters.state();
        if self.events_successor().is_some() {
            match state {
                // Between two events, and all of them are with the kernel.
                ConnState::Working => return true,
                ConnState::StalledReader => return false,
                _ => {}
            }
        }
        self.events.stays();
        self.waker.wake();
        false
    }

    /// Whether the handler of a stream of events has left it to the new process, and nothing more is written here.
    pub(super) fn has_left_events(&self) -> bool {
        #[cfg(feature = "axum")]
        return self.events.is_left();
        #[cfg(not(feature = "axum"))]
        false
    }

    /// Whether the present response is a stream of events that may go to the new process.
    pub(super) fn may_leave_events(&self) -> bool {
        #[cfg(feature = "axum")]
        return self.events_successor().is_some();
        #[cfg(not(feature = "axum"))]
        false
    }

    /// The connection has become a WebSocket.
    pub(super) fn share(&self, line: SharedWs) {
        let _ = self.line.set(line);
    }

    /// Why we close a WebSocket.
    pub(super) fn close_code(&self) -> u16 {
        #[cfg(feature = "websocket")]
        if let Some(code) = self.upgrade.close_code() {
            return code;
        }
        if self.server.has_handed_over() {
            SERVICE_RESTART
        } else {
            GOING_AWAY
        }
    }

    /// The bytes of a WebSocket.
    #[cfg(feature = "websocket")]
    pub(super) fn line(&self) -> Option<&SharedWs> {
        self.line.get()
    }

    /// Tells the client of a WebSocket that we go away, as far as there is room for it, and its handler to look.
    /// A handler in the middle of a frame says it when it is through.
    pub(super) fn write_close_frame(&self, cx: &mut Context<'_>) {
        if !self.counters.closes_websocket() {
            return;
        }
        self.try_close_frame(cx);
        self.reader.wake();
        self.writer.wake();
    }

    /// As [`write_close_frame`](Self::write_close_frame), without waking the handler.
    pub(super) fn try_close_frame(&self, cx: &mut Context<'_>) {
        if let Some(line) = self.line.get() {
            // If the client is gone, the handler's next read or write says so.
            let _ = line.lock().write_close_frame(cx, self.close_code());
        }
    }

    /// Counts it as closed in its present state.
    pub(super) fn count_closed(&self) {
        let state = self.counters.state();
        let is_idle = matches!(state, ConnState::Silent | ConnState::Idle);
        self.server
            .count_closed(state.words(), is_idle, || self.who());
    }

    /// Whether any request is in flight.
    pub(super) fn has_requests_in_flight(&self) -> bool {
        !self.in_flight().under_way.is_empty()
    }

    /// The peer, and what it had asked for.
    fn who(&self) -> String {
        let in_flight = self.in_flight();
        let requests: String = in_flight
            .under_way
            .iter()
            .take(3)
            .map(|request| format!(", {request}"))
            .collect();
        format!("{}{requests}", self.socket.peer())
    }

    /// Names a request that is cut at the end of the drain.
    pub(super) fn record_lost_request(&self, request: &InFlightRequest) {
        self.has_lost.store(true, Relaxed);
        let what = format!("{} from {}", request.words(), self.socket.peer());
        self.server.record_lost(what, request.age());
    }

    /// Names a connection that is cut at the end of the drain, if none of its requests was in flight.
    pub(super) fn record_lost(&self) {
        let state = self.counters.state();
        // Requests name themselves, also those whose own tasks are dropped after this one.
        let has_named = self.has_lost.load(Relaxed) || self.has_requests_in_flight();
        if state == ConnState::AwaitingClose || has_named {
            return;
        }
        // One line for all that had no request in flight.
        let from = match state {
            ConnState::Silent | ConnState::Idle => String::new(),
            _ => format!(" from {}", self.socket.peer()),
        };
        let age = Duration::from_millis(now_ms().saturating_sub(self.counters.last_progress()));
        self.server
            .record_lost(format!("connection {}{from}", state.words()), age);
    }
}

/// What a request waits for of its client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stuck {
    /// To send more of the body.
    Body,
    /// To take the answer.
    Answer,
}

impl InFlightRequest {
    const fn is_stuck(&self) -> Option<Stuck> {
        if self.pieces > 0 {
            Some(Stuck::Answer)
        } else if self.waits && !self.is_conversation {
            Some(Stuck::Body)
        } else {
            None
        }
    }

    /// The transport has the last of the answer, and no task works on it any more.
    const fn has_all(&mut self) {
        self.is_whole = true;
        self.task = 0;
    }

    /// Method and path, cut to a length that a report with a thousand of them can bear; what stands behind a question
    /// mark may be a secret.
    fn words(&self) -> String {
        let method = self.method.as_str().chars();
        printable::name_of(method.chain([' ']).chain(self.uri.path().chars()))
    }

    fn age(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.began))
    }
}

impl std::fmt::Display for InFlightRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let age = crate::util::duration::show(self.age());
        write!(f, "{} for {age}", self.words())
    }
}

impl ManagedConnection for ConnShared {
    fn wake(&self) {
        self.waker.wake();
    }

    fn idle(&self) -> Option<u64> {
        let is_idle = self.in_flight().under_way.is_empty();
        is_idle.then(|| self.idle_for(now_ms())).flatten()
    }

    fn request_eviction(&self) {
        self.evicting.store(true, Relaxed);
    }

    fn is_being_evicted(&self) -> bool {
        self.evicting.load(Relaxed)
    }

    fn activity(&self, stream: Option<u64>) -> Option<Activity> {
        let in_flight = self.in_flight();
        let mut under_way = in_flight.under_way.iter();
        let what = match stream {
            Some(task) => under_way.find(|request| request.task == task)?.words(),
            None => under_way.next().map_or_else(
                || format!("connection {}", self.counters.state().words()),
                InFlightRequest::words,
            ),
        };
        let with = format!("from {}", self.socket.peer());
        Some(Activity { what, with })
    }

    #[cfg(feature = "admin")]
    fn requests(&self) -> u64 {
        self.in_flight().under_way.len() as u64
    }
}
