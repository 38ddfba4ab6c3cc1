//! A server: accepts while the service runs, and drains its connections when it stops.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::io::IsTerminal;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use adieu_lifecycle::{Cause, ComponentId, Outcome, StopSignal};

use super::acceptor::NoReserve;
use super::close_listener::{BacklogEnd, CloseMethod};
use super::close_stats::CloseStats;
use super::connection_snapshot::ConnectionSnapshot;
#[cfg(feature = "admin")]
use super::connections::ServerStats;
use super::connections::{ConnectionRegistry, ManagedConnection};
use super::descriptor_budget::{DescriptorBudget, WaitingForDescriptor};
use super::drain_counts::DrainCounts;
use super::listen::{Listener, Listening};
use super::refusal::Refusal;
use super::socket::SharedSocket;
use super::transfer::{ArrivalQueue, Kind, MoveStats, Successor, Turn};
use crate::report::LostWork;
use crate::runtime::extension::ComponentProbe;
use crate::runtime::shared::{DriverMessage, ServiceShared};
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::runtime::tracked::Tracked;
use crate::tracking::task_registry::WorkKind;
use crate::util::latch::Latch;

/// How far the stop has come, for the connections of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum DrainStage {
    /// Serving.
    Serving,
    /// Stopping was announced: every answer asks the client to go elsewhere.
    Announced,
    /// No new connections. Those that were active a moment ago may send once more.
    Lingering,
    /// Connections without a request in flight are closed.
    Closing,
}

/// The time for the connections to end.
struct Drain {
    ends: tokio::time::Instant,
    quarter: Duration,
}

/// Longer than most round trips.
#[cfg(feature = "http")]
const IDLE_GRACE: Duration = Duration::from_millis(150);
/// A connection whose client has its whole response is closed so long before the end of the drain: what is open at the
/// end is cut, and counts as lost.
const FINAL_CUTOFF: Duration = Duration::from_millis(25);

/// What a server can be asked about its connections.
pub(crate) struct ServerProbe(Weak<Server>);

impl ComponentProbe for ServerProbe {
    fn describe_task(&self, task: u64) -> Option<(String, String)> {
        let activity = self.0.upgrade()?.connections.activity(task)?;
        Some((activity.what, activity.with))
    }
}

#[cfg(feature = "admin")]
impl ServerProbe {
    pub(crate) fn stats(&self) -> ServerStats {
        let server = self.0.upgrade();
        server.map_or_else(ServerStats::default, |server| server.connections.stats())
    }
}

/// What all connections of one server share.
pub(crate) struct Server {
    pub(crate) core: Arc<ServiceShared>,
    pub(crate) part: ComponentId,
    pub(crate) connections: ConnectionRegistry,
    pub(crate) place: &'static Location<'static>,
    stage: AtomicU8,
    max_connections: usize,
    linger: Duration,
    /// When each drain stage began.
    began: [OnceLock<Instant>; 4],
    /// Opens with [`DrainStage::Closing`], for futures that are not in the registry: event streams, TLS handshakes.
    pub(crate) closing: Latch,
    /// What the drain has, once it has begun.
    drain: OnceLock<Drain>,
    /// A connection is in the accept queue, and there is no descriptor for it.
    is_short: AtomicBool,
    /// A client is at hand, and all places of this server are taken.
    is_full: AtomicBool,
    closed: Mutex<CloseStats>,
    /// What the stop has come to.
    pub(crate) counts: Arc<DrainCounts>,
    /// What connections of its own kind are called where they move between processes; `None` if they cannot.
    pub(crate) moves: Option<(String, Kind)>,
    /// What it takes of those that the old process has.
    pub(crate) takes_moved: &'static [Kind],
    /// Where they go, looked for in the stop.
    successor: OnceLock<Option<Arc<Successor>>>,
    moved: Mutex<MoveStats>,
}

impl Server {
    pub(crate) fn new(
        core: Arc<ServiceShared>,
        part: ComponentId,
        place: &'static Location<'static>,
        max_connections: usize,
        linger: Duration,
    ) -> Self {
        core.listeners().expect_server();
        Self {
            core,
            part,
            connections: ConnectionRegistry::default(),
            place,
            stage: AtomicU8::new(0),
            max_connections,
            linger,
            began: Default::default(),
            closing: Latch::default(),
            drain: OnceLock::new(),
            is_short: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            closed: Mutex::default(),
            counts: Arc::default(),
            moves: None,
            takes_moved: &[],
            successor: OnceLock::new(),
            moved: Mutex::default(),
        }
    }

    pub(crate) fn drain_stage(&self) -> DrainStage {
        match self.stage.load(Ordering::Acquire) {
            0 => DrainStage::Serving,
            1 => DrainStage::Announced,
            2 => DrainStage::Lingering,
            _ => DrainStage::Closing,
        }
    }

    fn advance_stage(&self, stage: DrainStage) {
        // Release, paired with the acquire above; then every connection is woken to look.
        let _ = self.began[stage as usize].set(Instant::now());
        self.stage.fetch_max(stage as u8, Ordering::Release);
        if stage == DrainStage::Closing {
            self.closing.open();
        }
        self.connections.wake_all();
    }

    /// The new process, from the beginning of the stop on, if connections move to it.
    pub(crate) fn successor(&self) -> Option<&Arc<Successor>> {
        if self.drain_stage() == DrainStage::Serving {
            return None;
        }
        // A stop after a hand-off begins when the new process is known.
        let find = || self.core.transfer().successor_of(self.moves.as_ref()?);
        let successor = self.successor.get_or_init(find).as_ref();
        successor.filter(|successor| successor.is_open())
    }

    /// The new process, if connections of this kind move to it, beside those of the server's own kind.
    #[cfg(feature = "axum")]
    pub(crate) fn successor_for(&self, kind: Kind) -> Option<&Arc<Successor>> {
        let (name, _) = self.moves.as_ref()?;
        self.successor()
            .filter(|successor| successor.takes(name, kind))
    }

    /// Whether another process has taken over, and clients that connect again find it.
    #[cfg(feature = "http")]
    pub(crate) fn has_handed_over(&self) -> bool {
        matches!(self.core.cause.get(), Some(Cause::HandedOver(_)))
    }

    /// Offers a connection in this state to the new process. `true` says that it is that one's now; else it is this one's, as
    /// before.
    ///
    /// Nothing in this process may read or write it meanwhile. Dropped half-way, the connection may be either's, and must
    /// neither be used any more nor shut down.
    pub(crate) async fn move_out(
        &self,
        turn: Turn,
        kind: Kind,
        socket: &SharedSocket,
        snapshot: ConnectionSnapshot,
        state: &'static str,
    ) -> bool {
        let Some((name, _)) = &self.moves else {
            return false;
        };
        let since = Instant::now();
        let mut unanswered = Unanswered(Some(self));
        let result = turn.offer(name, kind, socket, snapshot).await;
        unanswered.0 = None;
        let is_moved = result.is_ok();
        self.moved().count(state, since, result);
        is_moved
    }

    fn moved(&self) -> MutexGuard<'_, MoveStats> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long connections may linger: a developer who presses Ctrl-C in a terminal does not want to wait for clients.
    fn linger(&self) -> Duration {
        let at_keyboard = self.core.cause.get() == Some(&Cause::Signal(StopSignal::Interrupt));
        if at_keyboard && io::stdin().is_terminal() {
            Duration::ZERO
        } else {
            self.linger
        }
    }

    /// How long ago this stage began; zero if it has not.
    pub(crate) fn stage_age(&self, stage: DrainStage) -> Duration {
        self.began[stage as usize]
            .get()
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    /// A bound inside the stop, fitted to what the drain has: the limits for linger, patience and close follow each other, and all
    /// of them have their place in it.
    pub(crate) fn clamp_to_drain(&self, limit: Duration) -> Duration {
        self.drain
            .get()
            .map_or(limit, |drain| limit.min(drain.quarter))
    }

    /// How long a connection stays that was active a moment ago, once the linger is over: its answer may have begun
    /// before the stop, and then its client was not told to go elsewhere. Not at all if others need its room.
    #[cfg(feature = "http")]
    pub(crate) fn idle_grace(&self) -> Duration {
        if self.is_short.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.clamp_to_drain(IDLE_GRACE.min(self.linger()))
    }

    /// How long a connection whose client has its whole response may still stay.
    pub(crate) fn until_final_cutoff(&self) -> Duration {
        self.drain.get().map_or(Duration::MAX, |drain| {
            let now = tokio::time::Instant::now();
            let left = drain.ends.saturating_duration_since(now);
            left.saturating_sub(FINAL_CUTOFF.min(drain.quarter / 4))
        })
    }

    fn closed(&self) -> MutexGuard<'_, CloseStats> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection that was closed because of the stop or of a limit, by its state; `who` names it.
    pub(crate) fn count_closed(
        &self,
        state: &'static str,
        is_idle: bool,
        who: impl FnOnce() -> String,
    ) {
        if self.drain_stage() < DrainStage::Lingering {
            self.closed().before_the_stop(state);
        } else {
            self.closed().in_the_stop(state, is_idle, who);
        }
    }

    /// A connection is closed before its first byte is handled. The log names one of many.
    pub(crate) fn count_refused(&self, refusal: &Refusal, socket: &SharedSocket) {
        let Some(state) = refusal.state() else {
            return;
        };
        self.count_closed(state, false, || socket.peer());
        let is_warning = refusal.is_warning() && self.closed().refuses();
        if is_warning || tracing::enabled!(target: "adieu", tracing::Level::DEBUG) {
            let (peer, why) = (socket.peer(), refusal.reason());
            self.core.log_deferred(move || {
                if is_warning {
                    tracing::warn!(target: "adieu", peer, %why, "closed a connection {state}");
                } else {
                    tracing::debug!(target: "adieu", peer, %why, "closed a connection {state}");
                }
            });
        }
    }

    /// Names work of a client that was cut.
    pub(crate) fn record_lost(&self, what: String, age: Duration) {
        self.core.losses().add(LostWork {
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

    /// No descriptor is left for a connection in the accept queue, whose request would be lost with it: idle connections
    /// are closed now, and not only after the linger.
    pub(super) fn close_idle_now(&self) {
        self.closed().is_short();
        self.is_short.store(true, Ordering::Relaxed);
        if self.drain_stage() < DrainStage::Closing {
            self.advance_stage(DrainStage::Closing);
        }
    }

    fn descriptors(&self) -> &DescriptorBudget {
        &self.core.listeners().descriptors
    }

    /// Whether a client waits for a place that a connection would leave to it.
    #[cfg(feature = "http")]
    pub(crate) fn has_clients_waiting(&self) -> bool {
        self.is_full.load(Ordering::SeqCst) || self.descriptors().has_waiters()
    }

    /// A connection has become idle: accept loops that wait for one to evict look again.
    #[cfg(feature = "http")]
    pub(crate) fn notify_waiting_clients(&self) {
        self.descriptors().notify();
    }

    /// A connection was asked to make room, and is not idle any more.
    #[cfg(feature = "http")]
    pub(crate) fn eviction_declined(&self) {
        self.descriptors().eviction_declined();
    }

    /// Whether there is a descriptor for one more connection.
    pub(super) fn has_descriptors(&self) -> bool {
        !self.descriptors().is_full()
    }

    /// Runs a connection as tracked work; the report of its end comes from the connection itself.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        connection: Arc<dyn ManagedConnection>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let slot = spawn::register(
            &self.core,
            Cow::Borrowed("connection"),
            self.place,
            WorkKind::Connection,
            None,
        );
        if let Ok(slot) = slot {
            self.descriptors().acquire();
            let guard = ConnectionGuard {
                server: Arc::clone(self),
                number: self
                    .connections
                    .insert(self.core.tasks.id(slot), connection),
            };
            let work = async move {
                work.await;
                drop(guard);
            };
            self.core
                .runtime
                .spawn(Tracked::new(Arc::clone(&self.core), slot, true, work));
        }
    }

    /// Accepts until the stop, then drains. Ends when no connection is left.
    ///
    /// Cancelled at the end of the drain: the listener is closed, and the connections are cancelled with it.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: Listener,
        mut serve: impl FnMut(SharedSocket),
    ) -> crate::Result {
        let stop = Stop::new(Arc::clone(&self.core)).of(self.part);
        if stop.until(self.core.running.wait()).await.is_none() {
            return Ok(());
        }
        if let Some(provenance) = listener.provenance() {
            self.note(provenance);
        }
        let mut listening = listener.open().await?;
        self.descriptors().add_server(Arc::downgrade(&self));
        let probe = ServerProbe(Arc::downgrade(&self));
        self.core
            .with_part(self.part, |part| part.probe = Some(Box::new(probe)));
        let name = self.moves.as_ref().map(|(name, _)| name.as_str());
        let server = Arc::downgrade(&self);
        let note = move |note| {
            if let Some(server) = server.upgrade() {
                server.note(note);
            }
        };
        let mut arrivals = self.core.transfer().arrivals(name, self.takes_moved, note);
        if self.core.listeners().server_opened() {
            self.core.mailbox.push(DriverMessage::MayServe);
        }
        let mut last = tokio::time::Instant::now();
        self.accept_until_stop(&listening, &mut arrivals, &stop, |socket| {
            last = tokio::time::Instant::now();
            serve(socket);
        })
        .await;
        arrivals.rest(&mut serve).await;
        let begun = tokio::time::Instant::now();
        if let Some(deadline) = stop.deadline() {
            let left = deadline.saturating_duration_since(begun);
            let _ = self.drain.set(Drain {
                ends: deadline,
                quarter: left / 4,
            });
        }
        let linger_ends = begun + self.clamp_to_drain(self.linger());
        let stats_guard = CloseStatsGuard(&self);
        let had_traffic = last.elapsed() < Duration::from_secs(1) || self.connections.len() > 0;
        listening.decided().await;
        let method = listening.cloak();
        // Not before new connections are refused: a client that gets a GOAWAY may connect again at once.
        self.advance_stage(DrainStage::Lingering);
        let end = match method {
            CloseMethod::LeftOpen(_) => {
                drop(listening);
                BacklogEnd::Quiet
            }
            _ => {
                listening
                    .drain_backlog(method, had_traffic, &self, &mut serve)
                    .await
            }
        };
        self.note(method.note(end));
        let _ = tokio::time::timeout_at(linger_ends, self.connections.all_closed()).await;
        self.advance_stage(DrainStage::Closing);
        self.connections.all_closed().await;
        drop(stats_guard);
        Ok(())
    }

    /// A client that finds all places taken is accepted and held, at most one: only then is it known that there is one.
    /// The connection that has been idle for the longest is closed for it.
    async fn accept_until_stop(
        &self,
        listening: &Listening,
        arrivals: &mut ArrivalQueue,
        stop: &Stop,
        mut serve: impl FnMut(SharedSocket),
    ) {
        let mut announced = false;
        let mut held = None;
        loop {
            // Made before the look, so that a change in between is not missed.
            let changes = self.descriptors().changes();
            let exhausted = self.exhausted();
            if exhausted.is_none()
                && let Some(socket) = held.take()
            {
                serve(socket);
                // It may have taken the last place.
                continue;
            }
            let waiting = held
                .as_ref()
                .and(exhausted)
                .map(|exhausted| self.wait_for(exhausted));
            // Every branch is cancel-safe: gates and notifications forget nothing, and a connection is either
            // handed out or still in the queue.
            tokio::select! {
                biased;
                () = stop.requested() => break,
                () = self.core.announced.wait(), if !announced => {
                    announced = true;
                    self.advance_stage(DrainStage::Announced);
                }
                () = changes, if held.is_some() => {}
                // It had its place in the old process.
                socket = arrivals.next() => serve(socket),
                accepted = listening.accept(&NoReserve), if held.is_none() => match accepted {
                    Ok(socket) if exhausted.is_none() => serve(socket),
                    Ok(socket) => held = Some(socket),
                    Err(error) => {
                        self.is_short_of_descriptors(&error.to_string());
                        let _waiting = self.wait_for(Exhausted::Descriptors);
                        let _ = stop.until(self.connections.wait_for_descriptor()).await;
                    }
                },
            }
            drop(waiting);
        }
        // It was accepted before the stop, and is served.
        if let Some(socket) = held {
            serve(socket);
        }
    }

    /// What there is too little of for one more connection.
    fn exhausted(&self) -> Option<Exhausted> {
        if self.connections.len() >= self.max_connections {
            Some(Exhausted::Connections)
        } else if self.descriptors().is_full() {
            Some(Exhausted::Descriptors)
        } else {
            None
        }
    }

    /// A client is at hand, and waits until this is dropped: the longest idle connection makes room for it, and if none
    /// is idle, the next one to be.
    fn wait_for(&self, exhausted: Exhausted) -> WaitingClient<'_> {
        match exhausted {
            Exhausted::Connections => {
                self.is_full.store(true, Ordering::SeqCst);
                if self.closed().is_full() {
                    let max_connections = self.max_connections;
                    self.core.log_deferred(move || {
                        tracing::warn!(target: "adieu", most = max_connections, "all connections allowed are taken; the longest idle make room");
                    });
                }
                let longest = self.connections.longest_idle();
                let longest = longest.map(|longest| (&self.connections, longest));
                self.descriptors().evict(longest);
                WaitingClient::Connection(&self.is_full)
            }
            Exhausted::Descriptors => {
                let wanted = self.descriptors().wait();
                self.is_short_of_descriptors("the others are kept for the program's own files");
                self.descriptors().evict_longest_idle();
                WaitingClient::Descriptor(wanted)
            }
        }
    }

    fn is_short_of_descriptors(&self, why: &str) {
        // Every connection that ends makes room for one, and then it is short again.
        if self.closed().is_short() {
            let why = why.to_owned();
            self.core.log_deferred(move || {
                tracing::warn!(target: "adieu", why, "no descriptors for more connections; the longest idle make room");
            });
        }
    }
}

/// Counts a connection whose move was not over at the end of the drain.
struct Unanswered<'server>(Option<&'server Server>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.0 {
            server.moved().unanswered();
        }
    }
}

/// What keeps a connection waiting.
#[derive(Clone, Copy)]
enum Exhausted {
    Connections,
    Descriptors,
}

/// A client waits until this is dropped.
enum WaitingClient<'server> {
    Connection(&'server AtomicBool),
    Descriptor(
        #[expect(dead_code, reason = "told when it is dropped")] WaitingForDescriptor<'server>,
    ),
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        if let Self::Connection(is_full) = self {
            is_full.store(false, Ordering::SeqCst);
        }
    }
}

/// Writes the tally of closed connections into the report, also when the waiting is cut.
struct CloseStatsGuard<'server>(&'server Server);

impl Drop for CloseStatsGuard<'_> {
    fn drop(&mut self) {
        let closed = std::mem::take(&mut *self.0.closed());
        for note in closed.notes() {
            self.0.note(note);
        }
        if let Some(Some(successor)) = self.0.successor.get() {
            for note in self.0.moved().notes(successor.pid()) {
                self.0.note(note);
            }
        } else if let Some(why) = (self.0.moves.as_ref()).and(self.0.core.transfer().objection()) {
            self.0.note(format!("no connection moved: {why}"));
        }
    }
}

/// Counts a connection out when its task is gone, however it went.
struct ConnectionGuard {
    server: Arc<Server>,
    number: usize,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let was_asked = self.server.connections.remove(self.number);
        if self.server.drain_stage() > DrainStage::Serving {
            self.server.counts.connection_has_closed();
        }
        self.server.descriptors().release(was_asked);
    }
}
