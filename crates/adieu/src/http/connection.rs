//! One connection from the accept to its end: handshake, protocol, upgrade, each driven within its limits.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, timeout};
use tower_service::Service;

use super::body::RequestBody;
#[cfg(feature = "axum")]
use super::carried_request;
use super::close_policy::{CloseAction, ConnState, Protocol};
use super::conn_state::{ConnShared, now_ms};
use super::io::ConnIo;
use super::service::RequestService;
#[cfg(feature = "websocket")]
use super::ws_handler;
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::net::{ConnectionSnapshot, Handshake, Kind, SharedSocket, Stream, Turn};

/// What a client that speaks HTTP/2 without being asked begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The end of a response whose length was not known at its beginning.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// How long it may take to go out.
const LAST_CHUNK_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of header fields that hyper allows by itself; any other costs it an allocation for each request.
const HYPER_HEAD_FIELDS: usize = 100;

/// Dropped half-way, which happens at the end of the drain, the connection is cut and named; requests in flight name
/// themselves.
pub(super) async fn serve_connection<S, B, F>(
    shared: Arc<ConnShared>,
    socket: SharedSocket,
    handshake: Handshake,
    make: impl Fn(&Arc<ConnShared>) -> F,
) where
    F: Future<Output = Result<S, BoxError>>,
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    let mut hold = CutOnDrop {
        shared: Arc::clone(&shared),
        is_over: false,
    };
    // Made here and not handed in: a future that is handed in to be awaited takes its room twice, for every connection.
    run_protocol(shared, socket, handshake, make).await;
    hold.is_over = true;
}

async fn run_protocol<S, B, F>(
    shared: Arc<ConnShared>,
    socket: SharedSocket,
    handshake: Handshake,
    make: impl Fn(&Arc<ConnShared>) -> F,
) where
    F: Future<Output = Result<S, BoxError>>,
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    let mut driver = ConnDriver::new(Arc::clone(&shared));
    if shared.counters.protocol() == Protocol::ProxyHeader {
        let header = handshake.read_header(&socket);
        match driver.drive(pin!(header), |_| {}).await {
            Some(Ok(())) => {}
            Some(Err(refusal)) => return shared.server.count_refused(&refusal, &socket),
            None => return,
        }
    }
    let stream = if handshake.is_tls() {
        shared.counters.enter(Protocol::TlsHandshake, now_ms());
        match driver.drive(pin!(handshake.secure(socket)), |_| {}).await {
            Some(Ok(stream)) => stream,
            Some(Err(refusal)) => return shared.server.count_refused(&refusal, &shared.socket),
            None => return,
        }
    } else {
        Stream::Plain(socket)
    };
    #[cfg(feature = "tls-no-provider")]
    if let Some(tls) = stream.tls_info() {
        shared.socket.set_tls(tls);
    }
    let agreed = stream.agreed_on_http2();
    shared.counters.enter(Protocol::Detecting, now_ms());
    let mut io = ConnIo::new(stream, Arc::clone(&shared));
    if let Some(snapshot) = shared.socket.take_snapshot() {
        #[cfg(feature = "axum")]
        let (snapshot, events) = snapshot.split_events();
        #[cfg(feature = "websocket")]
        if let Some(request) = snapshot.request {
            io.unread(snapshot.unread.into());
            let moved = (request, snapshot.state);
            let service = make(&shared);
            return Box::pin(ws_handler::adopt(&mut driver, &shared, io, moved, service)).await;
        }
        #[cfg(feature = "axum")]
        if let Some(request) = events {
            let Ok(head) = carried_request::head(&request) else {
                return;
            };
            io.goes_on_answering(head);
            shared.events.resume(snapshot.state.map(Into::into));
        }
        io.carry(snapshot.unread, snapshot.counters);
    }
    let agreed = if io.owes_rest_of_response() {
        Some(false)
    } else {
        agreed
    };
    let detected = match agreed {
        Some(http2) => Some(Ok(Some(http2))),
        None => loop {
            let mut seen = Vec::new();
            let step = detect_http2(&mut io, &mut seen);
            if let Some(detected) = driver.drive(pin!(step), |_| {}).await {
                break Some(detected);
            }
            let Some(turn) = driver.turn.take() else {
                break None;
            };
            io.unread(seen.into());
            match Box::pin(move_out(&shared, turn, io)).await {
                Some(back) => io = back,
                None => return,
            }
        },
    };
    let http2 = match detected {
        Some(Ok(Some(http2))) => http2,
        // The client has closed, or the close policy says to: close our side, and wait for the client to close its own.
        Some(Ok(None)) => return drop(driver.drive(pin!(io.shutdown()), |_| {}).await),
        _ => return,
    };
    let service = match driver.drive(pin!(make(&shared)), |_| {}).await {
        Some(Ok(service)) => service,
        Some(Err(error)) => {
            shared.server.core.log_deferred(move || {
                tracing::error!(target: "adieu", %error, "no service could be made for a connection");
            });
            return drop(driver.drive(pin!(io.shutdown()), |_| {}).await);
        }
        None => return,
    };
    let desk = RequestService::new(service, Arc::clone(&shared));
    if http2 {
        io.speaks_http2();
    }
    if http2 {
        shared.counters.enter(Protocol::Http2, now_ms());
        #[cfg(feature = "http2")]
        super::http2::serve(&mut driver, &shared, io, desk).await;
        // Only a TLS configuration that offers what it is not built for comes here.
        #[cfg(not(feature = "http2"))]
        shared.server.core.log_deferred(|| {
            tracing::error!(
                target: "adieu",
                "a client was closed: the TLS configuration offers HTTP/2, and this program was built without adieu's \
                 feature `http2`"
            );
        });
    } else {
        let io = TokioIo::new(io);
        shared.counters.enter(Protocol::Http1, now_ms());
        let mut builder = hyper::server::conn::http1::Builder::new();
        if shared.limits.head_fields != HYPER_HEAD_FIELDS {
            builder.max_headers(shared.limits.head_fields);
        }
        builder
            // A client may close its side once it has asked, and still wants its answer.
            .half_close(true)
            .max_buf_size(shared.limits.head_size.max(8_192));
        let mut conn = builder.serve_connection(io, desk).with_upgrades();
        while driver.drive(Pin::new(&mut conn), |_| {}).await.is_none() {
            let Some(turn) = driver.turn.take() else {
                break;
            };
            // Between two requests: what the parser has read is the beginning of the next one, and all it was to write is
            // written.
            let Some(parts) = conn.into_parts() else {
                return;
            };
            let mut io = parts.io.into_inner();
            io.unread(parts.read_buf);
            // A stream of events that its handler has left moves between two of them.
            let is_in_response = shared.has_left_events();
            match Box::pin(move_out(&shared, turn, io)).await {
                Some(mut back) => {
                    if is_in_response {
                        let end = timeout(LAST_CHUNK_TIMEOUT, back.write_all(LAST_CHUNK));
                        let Some(Ok(Ok(()))) = driver.drive(pin!(end), |_| {}).await else {
                            return;
                        };
                    }
                    let io = TokioIo::new(back);
                    conn = builder.serve_connection(io, parts.service).with_upgrades();
                }
                None => return,
            }
        }
        #[cfg(feature = "websocket")]
        if shared.counters.protocol() == Protocol::WebSocket
            && let Some(accepted) = shared.upgrade.take_accepted()
        {
            return Box::pin(ws_handler::serve(&mut driver, &shared, accepted)).await;
        }
        if matches!(
            shared.counters.protocol(),
            Protocol::WebSocket | Protocol::Upgraded
        ) {
            // The handler has the connection now, in a task of its own; we stay until it lets go of it.
            let gone = poll_fn(|cx| {
                if shared.gone.load(Relaxed) {
                    return Poll::Ready(());
                }
                shared.write_close_frame(cx);
                Poll::Pending
            });
            driver.drive(pin!(gone), |_| {}).await;
        }
    }
}

/// Offers a connection to the new process. `None` if it is that one's now; else it is this one's, as before, and is served
/// to its end.
///
/// Dropped half-way, at the end of the drain, this process's copy is closed: the new process may have the connection.
async fn move_out(shared: &Arc<ConnShared>, turn: Turn, io: ConnIo) -> Option<ConnIo> {
    let snapshot = ConnectionSnapshot {
        counters: shared.carried_counters(),
        peer: shared.socket.peer_addr(),
        unread: io.all_unread(),
        ..ConnectionSnapshot::default()
    };
    let (kind, state) = (Kind::Http1, shared.counters.state().words());
    #[cfg(feature = "axum")]
    let (kind, state, snapshot) = match shared.events.take_left() {
        Some(left) => (Kind::EventStream, "event stream", snapshot.in_events(left)),
        None => (kind, state, snapshot),
    };
    shared.is_offered.store(true, Relaxed);
    let mut moving = ReleasedOnDrop(Some(io));
    let server = &shared.server;
    if server
        .move_out(turn, kind, &shared.socket, snapshot, state)
        .await
    {
        return None;
    }
    shared.is_offered.store(false, Relaxed);
    moving.0.take()
}

/// A connection that is another process's, or may be.
struct ReleasedOnDrop(Option<ConnIo>);

impl Drop for ReleasedOnDrop {
    fn drop(&mut self) {
        if let Some(io) = self.0.take() {
            io.release();
        }
    }
}

/// Which protocol the client speaks, `None` if it is gone or the close has begun. Nothing read is lost.
///
/// Dropped half-way, what was read is in `seen`, which has to be empty before.
async fn detect_http2(io: &mut ConnIo, seen: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let mut room = [0; PREFACE.len()];
    loop {
        let count = seen.len();
        let more = poll_fn(|cx| poll_some(io, cx, &mut room[count..])).await?;
        seen.extend_from_slice(&room[count..count + more]);
        let http2 = match PREFACE.strip_prefix(&seen[..]) {
            _ if more == 0 && seen.is_empty() => return Ok(None),
            Some([]) => cfg!(feature = "http2"),
            Some(_) if more > 0 => continue,
            _ => false,
        };
        io.unread(Bytes::copy_from_slice(seen));
        return Ok(Some(http2));
    }
}

fn poll_some(io: &mut ConnIo, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    ready!(Pin::new(io).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// Polls one step of a connection after the other, and looks after each poll whether its time is up.
pub(super) struct ConnDriver {
    shared: Arc<ConnShared>,
    /// Waits until the new process has room for it.
    awaited_turn: Option<BoxFuture<Option<Turn>>>,
    /// It is to move now.
    turn: Option<Turn>,
    timer: Option<Timer>,
    extensions: u32,
    extended_until: Option<Instant>,
}

/// How long a connection is spared whose client has sent something that we did not come to read.
const UNREAD_EXTENSION: Duration = Duration::from_millis(250);
/// How often.
const MAX_EXTENSIONS: u32 = 4;
/// Looking again then is as good as never.
pub(super) const MAX_TIMER: Duration = Duration::from_secs(24 * 60 * 60);

impl ConnDriver {
    const fn new(shared: Arc<ConnShared>) -> Self {
        Self {
            shared,
            awaited_turn: None,
            turn: None,
            timer: None,
            extensions: 0,
            extended_until: None,
        }
    }

    /// Runs a step to its end; `None` if it was cut, or is to move, and then there is a turn for it. `on_turn` is called when the stop was announced.
    pub(super) async fn drive<F: Future>(
        &mut self,
        mut step: Pin<&mut F>,
        mut on_announce: impl FnMut(Pin<&mut F>),
    ) -> Option<F::Output> {
        poll_fn(|cx| {
            self.shared.waker.register_if_unset(cx);
            loop {
                // Before the poll, which says it, and again after it, because the first answer may just have begun.
                let announced = self.shared.should_announce_goaway();
                if announced {
                    on_announce(step.as_mut());
                }
                if let Poll::Ready(output) = step.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                if !announced && self.shared.should_announce_goaway() {
                    continue;
                }
                if self.waits_only_for_timer() {
                    return Poll::Pending;
                }
                if self.shared.client_is_gone(cx) {
                    return Poll::Ready(None);
                }
                let (close_action, now) = self.shared.close_action();
                if close_action != CloseAction::Move {
                    // One that is served meanwhile takes no other's turn.
                    self.awaited_turn = None;
                }
                match close_action {
                    CloseAction::Move => {
                        self.turn = ready!(self.poll_turn(cx));
                        if self.turn.is_some() {
                            return Poll::Ready(None);
                        }
                        // There is no new process any more: look again.
                    }
                    CloseAction::Wait(None) => return Poll::Pending,
                    CloseAction::Wait(Some(left)) => ready!(self.wait(cx, now, left)),
                    CloseAction::CloseWebSocket => self.shared.counters.close_websocket(now_ms()),
                    // Asked of the kernel at the last moment: a request that has just arrived is served.
                    CloseAction::Close if self.shared.socket.has_unread() => return Poll::Pending,
                    CloseAction::Close if self.shared.counters.begin_close(now_ms()) => {
                        self.shared.count_closed();
                        if self.shared.counters.protocol() == Protocol::Http2 {
                            on_announce(step.as_mut());
                        }
                    }
                    CloseAction::Abort if self.extends_deadline() => {
                        ready!(self.wait(cx, now, UNREAD_EXTENSION))
                    }
                    // Told already, and the protocol has not ended: what it waits for does not come.
                    CloseAction::Close | CloseAction::Abort => {
                        self.cut();
                        return Poll::Ready(None);
                    }
                }
            }
        })
        .await
    }

    /// Whether there is nothing to judge: the next request may take as long as the timer runs, and longer. So it is
    /// after nearly every request, and no clock is read.
    fn waits_only_for_timer(&self) -> bool {
        self.timer.as_ref().is_some_and(|timer| {
            let end = self.shared.idle_until();
            end.is_some_and(|end| timer.at <= Duration::from_millis(end))
                && !timer.sleep.is_elapsed()
        })
    }

    /// Whether a connection whose time is up is spared a while: on a busy machine its client's handshake or
    /// first request may have come in time, and wait in the kernel. The bound stays a bound.
    fn extends_deadline(&mut self) -> bool {
        let state = self.shared.counters.state();
        if !matches!(
            state,
            ConnState::ProxyHeader
                | ConnState::TlsHandshake
                | ConnState::HalfHead
                | ConnState::IdleHttp2
        ) {
            return false;
        }
        let now = Instant::now();
        if self.extended_until.is_some_and(|until| now < until) {
            return true;
        }
        let again = self.extensions < MAX_EXTENSIONS && self.shared.socket.has_unread();
        if again {
            self.extensions += 1;
            self.extended_until = Some(now + UNREAD_EXTENSION);
        }
        again
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Option<Turn>> {
        let awaited = self.awaited_turn.get_or_insert_with(|| {
            let successor = self.shared.successor().cloned();
            Box::pin(async move { successor?.turn().await })
        });
        let turn = ready!(awaited.as_mut().poll(cx));
        self.awaited_turn = None;
        Poll::Ready(turn)
    }

    fn cut(&self) {
        // One whose close has begun is counted already.
        if self.shared.counters.state() != ConnState::AwaitingClose
            && !self.shared.counters.is_closing()
        {
            self.shared.count_closed();
        }
        self.shared.was_cut.store(true, Relaxed);
    }

    /// Ready when it is time to look again. A timer set earlier than needed is left alone, and not even asked while
    /// it runs: looking once too often is cheaper than setting it for every request.
    fn wait(&mut self, cx: &mut Context<'_>, now: u64, left: Duration) -> Poll<()> {
        // A limit may be the longest duration there is, and no clock goes that far.
        let left = left.min(MAX_TIMER);
        let needed = Duration::from_millis(now) + left;
        if let Some(timer) = &mut self.timer {
            if timer.at <= needed && !timer.sleep.is_elapsed() {
                // It knows whom to wake: a connection is one task from its accept to its end.
                return Poll::Pending;
            }
            timer.at = needed;
            timer.sleep.as_mut().reset(Instant::now() + left);
        }
        let timer = self.timer.get_or_insert_with(|| Timer {
            sleep: Box::pin(tokio::time::sleep(left)),
            at: needed,
        });
        // Whatever the step has used up of the task's turn: a timer that is put off does not know whom to wake, and it
        // is asked once.
        pin!(unconstrained(timer.sleep.as_mut())).poll(cx)
    }
}

/// Wakes the connection's task.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// When, by the coarse clock.
    at: Duration,
}

/// Whatever still holds the connection, a handler of an upgraded one say, loses it.
struct CutOnDrop {
    shared: Arc<ConnShared>,
    is_over: bool,
}

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        let shared = &self.shared;
        if shared.is_offered.load(Relaxed) {
            return;
        }
        if !self.is_over && shared.server.core.stop.is_cancelling() {
            shared.record_lost();
            if shared.counters.protocol() == Protocol::Http2 && shared.has_requests_in_flight() {
                let connection = Arc::<ConnShared>::downgrade(shared);
                shared.server.connections.keep_for_streams(connection);
            }
        }
        if !shared.gone.load(Relaxed) {
            if shared.counters.protocol() == Protocol::WebSocket {
                // There was no time to say it before, or all is said.
                shared.counters.close_websocket(now_ms());
                shared.write_close_frame(&mut Context::from_waker(Waker::noop()));
            }
            shared.was_cut.store(true, Relaxed);
            shared.socket.cut();
            shared.reader.wake();
            shared.writer.wake();
        }
    }
}
