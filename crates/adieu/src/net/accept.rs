//! A server: accepts while the service runs, and sees its connections off when it stops.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::io::IsTerminal;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::closed::Closed;
#[cfg(feature = "admin")]
use super::connection::Census;
use super::connection::{Crowd, Guest};
use super::listen::{Listener, Listening};
use super::quit::{Way, is_passing};
use super::wire::Wire;
use crate::core::{Core, Message};
use crate::gate::Gate;
use crate::lifecycle::{Cause, Outcome, PartId, StopSignal};
use crate::report::Loss;
use crate::roster::WorkKind;
use crate::spawn;
use crate::stop::Stop;
use crate::tracked::Tracked;

/// How far the stop has come, for the connections of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Tide {
    /// Serving.
    Flow,
    /// Stopping was announced: every answer asks the client to go elsewhere.
    Turning,
    /// No new connections. Those that were active a moment ago may send once more.
    Linger,
    /// Whoever has nothing under way is sent home.
    Ebb,
}

/// The time for seeing everybody off.
struct Drain {
    ends: tokio::time::Instant,
    quarter: Duration,
}

/// Longer than most round trips.
#[cfg(feature = "http")]
const AFTERTHOUGHT: Duration = Duration::from_millis(150);
/// Whoever has all it wants is let go so long before the end of the drain: what is there at the end is cut, and counts
/// as a loss.
const LAST_CALL: Duration = Duration::from_millis(25);

/// What all connections of one server share.
pub(crate) struct Server {
    pub(crate) core: Arc<Core>,
    pub(crate) part: PartId,
    pub(crate) crowd: Crowd,
    pub(crate) place: &'static Location<'static>,
    tide: AtomicU8,
    most: usize,
    linger: Duration,
    /// When each tide began.
    began: [OnceLock<Instant>; 4],
    /// Completes for those who wait for the ebb and are no guests.
    pub(crate) ebbed: Gate,
    /// What the drain has, once it has begun.
    drain: OnceLock<Drain>,
    /// Somebody is in the queue, and there is no descriptor for it.
    is_short: AtomicBool,
    closed: Mutex<Closed>,
}

impl Server {
    pub(crate) fn new(
        core: Arc<Core>,
        part: PartId,
        place: &'static Location<'static>,
        most: usize,
        linger: Duration,
    ) -> Self {
        core.estate.announce();
        Self {
            core,
            part,
            crowd: Crowd::default(),
            place,
            tide: AtomicU8::new(0),
            most,
            linger,
            began: Default::default(),
            ebbed: Gate::default(),
            drain: OnceLock::new(),
            is_short: AtomicBool::new(false),
            closed: Mutex::default(),
        }
    }

    pub(crate) fn tide(&self) -> Tide {
        match self.tide.load(Ordering::Acquire) {
            0 => Tide::Flow,
            1 => Tide::Turning,
            2 => Tide::Linger,
            _ => Tide::Ebb,
        }
    }

    fn turn(&self, tide: Tide) {
        // Release, paired with the acquire above; then everybody is told to look.
        let _ = self.began[tide as usize].set(Instant::now());
        self.tide.fetch_max(tide as u8, Ordering::Release);
        if tide == Tide::Ebb {
            self.ebbed.open();
        }
        self.crowd.nudge_all();
    }

    /// How long connections may linger: nobody who presses Ctrl-C in a terminal wants to wait for clients.
    fn linger(&self) -> Duration {
        let at_keyboard = self.core.cause.get() == Some(&Cause::Signal(StopSignal::Interrupt));
        if at_keyboard && io::stdin().is_terminal() {
            Duration::ZERO
        } else {
            self.linger
        }
    }

    /// How long ago this tide began; nothing if it has not.
    pub(crate) fn since(&self, tide: Tide) -> Duration {
        self.began[tide as usize]
            .get()
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    /// A bound inside the stop, fitted to what the drain has: linger, patience and parting follow each other, and all
    /// of them have their place in it.
    pub(crate) fn bounded(&self, limit: Duration) -> Duration {
        self.drain
            .get()
            .map_or(limit, |drain| limit.min(drain.quarter))
    }

    /// How long a connection stays that was active a moment ago, once the linger is over: its answer may have begun
    /// before the stop, and then its client was not told to go elsewhere. Not at all if others need its room.
    #[cfg(feature = "http")]
    pub(crate) fn afterthought(&self) -> Duration {
        if self.is_short.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.bounded(AFTERTHOUGHT.min(self.linger()))
    }

    /// How long whoever has all it wants may still stay.
    pub(crate) fn until_last_call(&self) -> Duration {
        self.drain.get().map_or(Duration::MAX, |drain| {
            let now = tokio::time::Instant::now();
            let left = drain.ends.saturating_duration_since(now);
            left.saturating_sub(LAST_CALL.min(drain.quarter / 4))
        })
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection that was closed because of the stop or of a limit, by its state; `who` names it.
    pub(crate) fn count_closed(
        &self,
        state: &'static str,
        is_idle: bool,
        who: impl FnOnce() -> String,
    ) {
        if self.tide() < Tide::Linger {
            self.closed().before_the_stop(state);
        } else {
            self.closed().in_the_stop(state, is_idle, who);
        }
    }

    /// Names work of a client that was cut.
    pub(crate) fn lose(&self, what: String, age: Duration) {
        self.core.losses().add(Loss {
            name: what,
            place: self.place.to_string(),
            outcome: Outcome::Cancelled,
            count: 1,
            age,
            blocking: false,
            failure: None,
        });
    }

    pub(crate) fn note(&self, note: String) {
        self.core.with_part(self.part, |part| part.notes.push(note));
    }

    /// No descriptor is left for somebody in the queue, whose request would be lost with it: whoever has nothing under
    /// way makes room now, and not only after the linger.
    pub(super) fn make_room(&self) {
        self.closed().is_short();
        self.is_short.store(true, Ordering::Relaxed);
        if self.tide() < Tide::Ebb {
            self.turn(Tide::Ebb);
        }
    }

    /// Runs a connection as tracked work; its end is told by the guest itself.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        guest: Arc<dyn Guest>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let seat = spawn::enter(
            &self.core,
            Cow::Borrowed("connection"),
            self.place,
            WorkKind::Connection,
            None,
        );
        if let Ok(seat) = seat {
            let present = Present {
                server: Arc::clone(self),
                number: self.crowd.enter(self.core.roster.id(seat), guest),
            };
            let work = async move {
                work.await;
                drop(present);
            };
            self.core
                .runtime
                .spawn(Tracked::new(Arc::clone(&self.core), seat, true, work));
        }
    }

    /// Accepts until the stop, then sees everybody off. Ends when nobody is connected any more.
    ///
    /// Cancelled at the end of the drain: the listener is closed, and the connections are cancelled with it.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: Listener,
        serve: impl Fn(Wire),
    ) -> crate::Result {
        let stop = Stop::new(Arc::clone(&self.core));
        if stop.until(self.core.running.pass()).await.is_none() {
            return Ok(());
        }
        if let Some(provenance) = listener.provenance() {
            self.note(provenance);
        }
        let mut listening = listener.open().await?;
        self.bear_witness();
        #[cfg(feature = "admin")]
        self.open_for_census();
        if self.core.estate.opened() {
            self.core.inbox.push(Message::Listening);
        }
        let mut last = tokio::time::Instant::now();
        self.accept_until_stop(&listening, &stop, |wire| {
            last = tokio::time::Instant::now();
            serve(wire);
        })
        .await;
        let begun = tokio::time::Instant::now();
        if let Some(deadline) = stop.deadline() {
            let left = deadline.saturating_duration_since(begun);
            let _ = self.drain.set(Drain {
                ends: deadline,
                quarter: left / 4,
            });
        }
        let ebb = begun + self.bounded(self.linger());
        let tally = Tally(&self);
        let had_traffic = last.elapsed() < Duration::from_secs(1) || self.crowd.len() > 0;
        listening.decided().await;
        let way = listening.hide();
        // Not before: whoever is sent away may be back at once, and is to find nobody here.
        self.turn(Tide::Linger);
        match way {
            Way::Left(_) => drop(listening),
            _ => listening.empty(had_traffic, &self, &serve).await,
        }
        self.note(way.note());
        let _ = tokio::time::timeout_at(ebb, self.crowd.empty()).await;
        self.turn(Tide::Ebb);
        self.crowd.empty().await;
        drop(tally);
        Ok(())
    }

    /// Lets a connection be named by what it does, also if it blocks its thread.
    fn bear_witness(self: &Arc<Self>) {
        let server = Arc::downgrade(self);
        let doing = move |task| server.upgrade()?.crowd.doing(task);
        self.core
            .with_part(self.part, |part| part.witness = Some(Box::new(doing)));
    }

    /// Says that clients can come from now on, and lets them be counted.
    #[cfg(feature = "admin")]
    fn open_for_census(self: &Arc<Self>) {
        let server = Arc::downgrade(self);
        let count = move || {
            server
                .upgrade()
                .map_or_else(Census::default, |server| server.crowd.census())
        };
        self.core
            .with_part(self.part, |part| part.census = Some(Box::new(count)));
    }

    async fn accept_until_stop(
        &self,
        listening: &Listening,
        stop: &Stop,
        mut serve: impl FnMut(Wire),
    ) {
        let mut announced = false;
        loop {
            // Made before the look, so that a leave in between is not missed.
            let leaves = self.crowd.somebody_leaves();
            let full = self.crowd.len() >= self.most;
            // Every branch is cancel-safe: gates and notifications forget nothing, and a connection is either
            // handed out or still in the queue.
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = self.core.announced.pass(), if !announced => {
                    announced = true;
                    self.turn(Tide::Turning);
                }
                () = leaves, if full => {}
                accepted = listening.accept(), if !full => match accepted {
                    Ok(wire) => serve(wire),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        // Every connection that ends makes room for one, and then it is short again.
                        if self.closed().is_short() {
                            self.core.aside(move || {
                                tracing::warn!(target: "adieu", %error, "cannot accept; trying again when a connection ends");
                            });
                        }
                        let _ = stop.until(self.crowd.breath()).await;
                    }
                },
            }
        }
    }
}

/// Writes the tally of closed connections into the report, also when the waiting is cut.
struct Tally<'server>(&'server Server);

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        let closed = std::mem::take(&mut *self.0.closed());
        for note in closed.notes() {
            self.0.note(note);
        }
    }
}

/// Counts a connection out when its task is gone, however it went.
struct Present {
    server: Arc<Server>,
    number: usize,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.server.crowd.leave(self.number);
    }
}
