//! What is known of one connection: its track, its requests, its socket, and whom to wake.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Context;
use std::time::Duration;

use http::{Method, Uri};

use super::limits::Limits;
use super::line::Line;
use super::track::{Moment, PARTED, Stage, State, Track, Verdict};
use crate::net::{Bell, Doing, Guest, Server, Tide, Wire};
use crate::sys;

/// One request under way.
pub(super) struct Errand {
    id: u64,
    method: Method,
    uri: Uri,
    /// The task that answers it, if it has one of its own; else 0.
    task: u64,
    /// When its last bytes came in, in milliseconds.
    began: u64,
    /// Its handler waits for the body.
    waits: bool,
    /// Its answer has begun. What it still waits for is then its own affair: a conversation may well pause.
    answers: bool,
    /// Who has a hold on it.
    holds: u32,
    /// Those of them that are pieces of the answer, on their way out.
    pieces: u32,
    /// The answer has come to its end, and no piece of it was dropped half-way.
    is_whole: bool,
}

pub(super) struct Facts {
    pub(super) server: Arc<Server>,
    pub(super) wire: Wire,
    pub(super) limits: Arc<Limits>,
    pub(super) track: Track,
    /// Rings for the task that minds the connection.
    pub(super) bell: Bell,
    /// Rings for whoever reads an upgraded connection.
    pub(super) reader: Bell,
    /// Rings for whoever writes to it.
    pub(super) writer: Bell,
    pub(super) was_cut: AtomicBool,
    pub(super) gone: AtomicBool,
    /// A request of it was cut, and is in the report.
    has_lost: AtomicBool,
    /// Where we can have a word with the client of a WebSocket.
    line: OnceLock<Line>,
    /// What the kernel had left to send when we last looked.
    unacknowledged: AtomicU32,
    /// How much of it at most, at its end, was our talk about the connection, and no answer.
    talk: AtomicU32,
    errands: Mutex<Errands>,
}

#[derive(Default)]
struct Errands {
    under_way: Vec<Errand>,
    next: u64,
}

impl Errands {
    fn find(&self, id: u64) -> Option<usize> {
        self.under_way.iter().position(|errand| errand.id == id)
    }
}

/// How often to look whether a client that we cannot write to takes anything.
const LOOK: Duration = Duration::from_millis(250);
/// More than TLS adds to one write.
const RECORD: u32 = 64;

fn now_ms() -> u64 {
    u64::try_from(sys::coarse_now().as_millis()).unwrap_or(u64::MAX)
}

impl Facts {
    pub(super) fn new(server: Arc<Server>, wire: Wire, limits: Arc<Limits>, first: Stage) -> Self {
        Self {
            server,
            wire,
            limits,
            track: Track::new(now_ms(), first),
            bell: Bell::default(),
            reader: Bell::default(),
            writer: Bell::default(),
            was_cut: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            line: OnceLock::new(),
            unacknowledged: AtomicU32::new(0),
            talk: AtomicU32::new(0),
            errands: Mutex::default(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.track.stage()
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.track.enter(stage, now_ms());
    }

    pub(super) fn read(&self, bytes: usize, heads: u32, in_body: bool, work: bool) {
        self.track.read(now_ms(), bytes, heads, in_body, work);
    }

    pub(super) fn wrote(&self, work: bool) {
        self.track.wrote(now_ms(), work);
    }

    pub(super) fn cannot_write(&self) {
        if self.track.cannot_write() {
            self.look_at_the_kernel();
        }
    }

    /// An HTTP/2 connection was written to: so many bytes of talk, or an answer.
    pub(super) fn talked(&self, talk: Option<usize>) {
        let talk = talk.map_or(0, |bytes| {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let before = self.talk.load(Relaxed);
            before.saturating_add(bytes).saturating_add(RECORD)
        });
        self.talk.store(talk, Relaxed);
    }

    /// Whether the client has taken any of the answers that the kernel holds for it since the last look: room for more
    /// is only told of when there is a lot of it, and a slow reader is not one that stopped.
    fn look_at_the_kernel(&self) -> bool {
        let now = self.wire.unacknowledged();
        let before = self.unacknowledged.swap(now, Relaxed);
        let talk = self.talk.load(Relaxed);
        // The protocol is done with the last of its answers long before a client on a slow line is.
        self.track.is_untaken(now > talk);
        now < before && before > talk
    }

    fn errands(&self) -> MutexGuard<'_, Errands> {
        self.errands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is whole up to its body.
    pub(super) fn begin(&self, method: Method, uri: Uri) -> u64 {
        let mut errands = self.errands();
        self.track.begin();
        let id = errands.next;
        errands.next += 1;
        errands.under_way.push(Errand {
            id,
            method,
            uri,
            task: 0,
            began: self.track.last_progress(),
            waits: false,
            answers: false,
            holds: 1,
            pieces: 0,
            is_whole: false,
        });
        id
    }

    /// The request that has just begun is answered in a task of its own.
    pub(super) fn runs_in(&self, task: u64) {
        let mut errands = self.errands();
        let last = errands.next.wrapping_sub(1);
        if let Some(index) = errands.find(last) {
            errands.under_way[index].task = task;
        }
    }

    /// One hold less, a piece's if it says whether it was written. With the last one the request ends: its answer is
    /// out, or nobody wants it any more; if not all of it is out, it is looked at for the last time.
    pub(super) fn let_go(&self, id: u64, written: Option<bool>, look: impl FnOnce(&Errand)) {
        let mut errands = self.errands();
        let Some(index) = errands.find(id) else {
            return;
        };
        let errand = &mut errands.under_way[index];
        errand.holds -= 1;
        if let Some(written) = written {
            errand.is_whole &= written;
            errand.pieces -= 1;
            if errand.pieces == 0 {
                self.track.answer_is_held(false);
            }
        }
        if errand.holds > 0 {
            return;
        }
        if !errand.is_whole {
            look(errand);
        }
        if errand.waits && !errand.answers {
            self.track.body_is_awaited(false);
        }
        // Dropped where it is, and not moved out first.
        let last = errands.under_way.len() - 1;
        if index < last {
            errands.under_way.swap(index, last);
        }
        errands.under_way.truncate(last);
        self.track.end();
    }

    /// The transport gets a piece of the answer, which has a hold of its own.
    pub(super) fn hand_out(&self, id: u64, is_last: bool) {
        let mut errands = self.errands();
        if let Some(index) = errands.find(id) {
            let errand = &mut errands.under_way[index];
            if is_last {
                errand.has_all();
            }
            errand.holds += 1;
            errand.pieces += 1;
            if errand.pieces == 1 {
                self.track.answer_is_held(true);
            }
        }
    }

    /// The transport has got the last of the answer.
    pub(super) fn said_all(&self, id: u64) {
        self.change(id, Errand::has_all);
    }

    /// The handler of a request waits for its body, or has got some of it, or gave it up.
    pub(super) fn body_is_awaited(&self, id: u64, waits: bool) {
        self.change(id, |errand| errand.waits = waits);
    }

    /// The answer to a request with a body has begun.
    pub(super) fn answers(&self, id: u64) {
        self.change(id, |errand| errand.answers = true);
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Errand)) {
        let mut errands = self.errands();
        let Some(index) = errands.find(id) else {
            return;
        };
        let errand = &mut errands.under_way[index];
        let before = errand.waits && !errand.answers;
        change(errand);
        let after = errand.waits && !errand.answers;
        if before != after {
            self.track.body_is_awaited(after);
            // A stream has a task of its own, and the one that minds the connection has yet to hear that it waits.
            if after && self.stage() == Stage::Http2 {
                self.bell.ring();
            }
        }
    }

    /// Whether the client has sent further requests behind the one being answered.
    pub(super) fn has_more(&self) -> bool {
        // What is still to come of a body is nothing further.
        self.track.has_heads_waiting() || (!self.track.is_in_body() && self.wire.has_unread())
    }

    pub(super) fn state(&self) -> State {
        self.track.state()
    }

    /// Whether no further stream of an HTTP/2 client is to be taken.
    pub(super) fn is_time_to_draw_the_line(&self) -> bool {
        self.server.tide() == Tide::Ebb || self.track.has_hung_up()
    }

    /// Whether it is time to tell an HTTP/2 client to go elsewhere: not before it got its first answer, or a
    /// client that connects during the announcement would find no server that talks to it. One that has connected
    /// long ago and asked for nothing is in no hurry.
    pub(super) fn is_time_to_turn(&self) -> bool {
        match self.server.tide() {
            Tide::Flow => false,
            Tide::Turning | Tide::Linger => {
                self.track.has_served() || self.track.hesitates(now_ms())
            }
            Tide::Ebb => true,
        }
    }

    /// When its time is up if nothing comes, in milliseconds: of a connection that waits for its next request, while
    /// nobody stops anything. For all others there is more to it than that.
    pub(super) fn idle_until(&self) -> Option<u64> {
        let is_calm = self.server.tide() == Tide::Flow;
        is_calm
            .then(|| self.track.idle_until(&self.limits))
            .flatten()
    }

    /// What is to be done at this moment, and which it is, in milliseconds.
    pub(super) fn verdict(&self) -> (Verdict, u64) {
        let tide = self.server.tide();
        if tide >= Tide::Linger && self.state() == State::IdleHttp2 {
            self.look_at_the_kernel();
        }
        if tide >= Tide::Linger {
            self.track.look_at_its_pace();
        }
        let state = self.state();
        let now_ms = now_ms();
        // Often enough to know when the client took the last byte.
        let look = match state {
            State::StalledReader => LOOK,
            State::Parting => PARTED,
            _ => Duration::MAX,
        };
        let took_some = look < Duration::MAX && self.look_at_the_kernel();
        let all_taken = self.unacknowledged.load(Relaxed) == 0;
        if took_some {
            self.track.took_some(now_ms, all_taken);
        }
        let moment = Moment {
            now_ms,
            tide,
            since_linger: self.server.since(Tide::Linger),
            since_ebb: self.server.since(Tide::Ebb),
            all_taken,
            most: self.server.bounded(Duration::MAX / 4),
            afterthought: self.server.afterthought(),
            until_last_call: self.server.until_last_call(),
        };
        // An HTTP/2 client that asks for nothing is told to go elsewhere then, if somebody looks.
        let hesitation = match tide {
            Tide::Turning if self.stage() == Stage::Http2 => self.track.hesitates_in(now_ms),
            _ => None,
        };
        let look = if all_taken { Duration::MAX } else { look };
        let look = look.min(hesitation.unwrap_or(Duration::MAX));
        let verdict = match self.track.verdict(&self.limits, moment) {
            Verdict::Wait(Some(left)) => Verdict::Wait(Some(left.min(look))),
            verdict => verdict,
        };
        (verdict, now_ms)
    }

    /// Whether the client of an HTTP/1 request under way has gone for good. One that has only closed its side may still
    /// want the answer, and has its time: nobody else would notice, since the protocol does not read meanwhile.
    pub(super) fn waits_for_nobody(&self, cx: &mut Context<'_>) -> bool {
        let is_at_work = matches!(self.state(), State::Working | State::HalfClosed);
        if !is_at_work || self.stage() != Stage::Http1 {
            return false;
        }
        let (has_closed, is_gone) = self.wire.departure(cx);
        if has_closed {
            self.track.half_closed(now_ms());
        }
        is_gone
    }

    /// Whether this is news.
    pub(super) fn hang_up(&self) -> bool {
        self.track.hang_up(now_ms())
    }

    /// The connection has become a WebSocket.
    pub(super) fn share(&self, line: Line) {
        let _ = self.line.set(line);
    }

    pub(super) fn close_websocket(&self) {
        self.track.close_websocket(now_ms());
    }

    /// Tells the client of a WebSocket that we go away, as far as there is room for it, and its handler to look.
    /// A handler in the middle of a frame says it when it is through.
    pub(super) fn say_going_away(&self, cx: &mut Context<'_>) {
        if !self.track.closes_websocket() {
            return;
        }
        if let Some(line) = self.line.get() {
            // If the client is gone the handler hears of it.
            let _ = line.lock().say_going_away(cx);
        }
        self.reader.ring();
        self.writer.ring();
    }

    /// Counts it as closed in its present state.
    pub(super) fn count_closed(&self) {
        let state = self.state();
        let is_idle = matches!(state, State::Silent | State::Idle);
        self.server
            .count_closed(state.words(), is_idle, || self.who());
    }

    /// Whether any request is under way.
    pub(super) fn has_errands(&self) -> bool {
        !self.errands().under_way.is_empty()
    }

    /// The peer, and what it had asked for.
    fn who(&self) -> String {
        let errands = self.errands();
        let requests: String = errands
            .under_way
            .iter()
            .take(3)
            .map(|errand| format!(", {errand}"))
            .collect();
        format!("{}{requests}", self.wire.peer())
    }

    /// Names a request that is cut at the end of the drain.
    pub(super) fn lose_request(&self, errand: &Errand) {
        self.has_lost.store(true, Relaxed);
        let what = format!("{} from {}", errand.words(), self.wire.peer());
        self.server.lose(what, errand.age());
    }

    /// Names a connection that is cut at the end of the drain, if none of its requests was under way.
    pub(super) fn lose(&self) {
        let state = self.state();
        // Requests name themselves, also those whose own tasks are dropped after this one.
        let has_named = self.has_lost.load(Relaxed) || self.has_errands();
        if state == State::Parting || has_named {
            return;
        }
        // One line for all that had nothing under way.
        let from = match state {
            State::Silent | State::Idle => String::new(),
            _ => format!(" from {}", self.wire.peer()),
        };
        let age = Duration::from_millis(now_ms().saturating_sub(self.track.last_progress()));
        self.server
            .lose(format!("connection {}{from}", state.words()), age);
    }
}

impl Errand {
    /// The transport has the last of the answer, and nobody works on it any more.
    const fn has_all(&mut self) {
        self.is_whole = true;
        self.task = 0;
    }

    /// Method and path; what stands behind a question mark may be a secret.
    fn words(&self) -> String {
        format!("{} {}", self.method, self.uri.path())
    }

    fn age(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.began))
    }
}

impl std::fmt::Display for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let age = crate::duration::show(self.age());
        write!(f, "{} for {age}", self.words())
    }
}

impl Guest for Facts {
    fn nudge(&self) {
        self.bell.ring();
    }

    fn doing(&self, stream: Option<u64>) -> Option<Doing> {
        let errands = self.errands();
        let mut under_way = errands.under_way.iter();
        let what = match stream {
            Some(task) => under_way.find(|errand| errand.task == task)?.words(),
            None => under_way.next().map_or_else(
                || format!("connection {}", self.state().words()),
                Errand::words,
            ),
        };
        let with = format!("from {}", self.wire.peer());
        Some(Doing { what, with })
    }

    #[cfg(feature = "admin")]
    fn requests(&self) -> u64 {
        self.errands().under_way.len() as u64
    }
}
