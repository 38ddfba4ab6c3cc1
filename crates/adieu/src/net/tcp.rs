//! TCP and Unix socket servers: a handler for each connection, a goodbye for each client.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use adieu_core::{Winner, race};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::stall::Stall;
use crate::component::{BoxFuture, Ending, launch};
use crate::error::Error;
use crate::net::{
    Activity, Carried, ConnectionSnapshot, DrainStage, Handshake, Kind, Listener,
    ManagedConnection, Server, SharedSocket, Stream, WakerCell,
};
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure};

/// A TCP server about to start: it does at the end of the statement that makes it, and accepts once `setup`
/// has returned.
///
/// Made by [`App::tcp`](crate::App::tcp).
pub struct TcpBuilder<'app> {
    app: &'app mut Registrar,
    listener: Option<Listener>,
    handler: ConnHandler,
    adopter: Option<ConnAdopter>,
    goodbye: Cow<'static, [u8]>,
    most: usize,
}

type ConnHandler = Arc<dyn Fn(Conn) -> BoxFuture<crate::Result> + Send + Sync>;
type ConnAdopter = Arc<dyn Fn(Conn, Carried) -> BoxFuture<crate::Result> + Send + Sync>;

/// How long a client may take to close its side after the goodbye.
const CLIENT_CLOSE_WAIT: Duration = Duration::from_millis(200);
/// How long a client that never pauses is read in a stop.
const READ_LIMIT_IN_STOP: Duration = Duration::from_millis(500);
/// How long a client that takes nothing of what is written may hold a stop.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the goodbye may take to go out to a client that does not read.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// From the accept to the end of the header of a proxy and of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// From the start of the closing stage to the end of the handshake.
const HANDSHAKE_TIMEOUT_IN_STOP: Duration = Duration::from_secs(1);

impl<'app> TcpBuilder<'app> {
    pub(crate) fn new<F, Fut>(app: &'app mut Registrar, listener: Listener, handler: F) -> Self
    where
        F: Fn(Conn) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let handler: ConnHandler = Arc::new(move |conn| {
            let work = handler(conn);
            Box::pin(async move { work.await.into_result() })
        });
        Self {
            app,
            listener: Some(listener),
            handler,
            adopter: None,
            goodbye: Cow::Borrowed(b""),
            most: 16_384,
        }
    }

    /// The text that every connected client gets when the service stops, after everything it had sent was handled.
    pub fn goodbye(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.goodbye = match text.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        self
    }

    /// Takes the connections that a handler of the old process has given up with [`Conn::carry`], in a
    /// [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md). The connection is open, and its client
    /// knows nothing of the hand-off. Without this such clients get the goodbye.
    ///
    /// A handler that does not understand the state returns an error; the client then gets the goodbye. Listeners are the
    /// same in both processes if they have the same name. Linux only.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// use adieu::net::{Carried, Conn};
    /// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    ///
    /// async fn count(conn: Conn, mut lines: u64) -> adieu::Result {
    ///     let mut conn = BufReader::new(conn);
    ///     let mut line = String::new();
    ///     while conn.read_line(&mut line).await? > 0 && line.ends_with('\n') {
    ///         lines += 1;
    ///         conn.write_all(format!("{lines}\n").as_bytes()).await?;
    ///         line.clear();
    ///     }
    ///     // The client has hung up, or the service stops: half a line goes with the connection.
    ///     let state = Carried::new("lines", 1, lines.to_string()).unread(line);
    ///     Ok(conn.get_mut().carry(state)?)
    /// }
    ///
    /// let counter = app.listen("counter", "127.0.0.1:0").await?;
    /// app.tcp(counter, |conn| count(conn, 0))
    ///     .adopt(async |conn, state| match (state.name(), state.version()) {
    ///         ("lines", 1) => count(conn, std::str::from_utf8(state.bytes())?.parse()?).await,
    ///         _ => Err("a state of another version".into()),
    ///     });
    /// # Ok(()) }
    /// ```
    pub fn adopt<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Conn, Carried) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        self.adopter = Some(Arc::new(move |conn, state| {
            let work = handler(conn, state);
            Box::pin(async move { work.await.into_result() })
        }));
        self
    }

    /// The most connections at a time; further ones wait in the kernel's queue. 16,384 if left out.
    pub const fn max_connections(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    fn start(&mut self, listener: Listener) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let place: &'static Location<'static> = listener.place;
        let id = core.register(listener.name.clone(), ComponentKind::Tcp, place, None)?;
        listener.handshake.reload_with(&core)?;
        // Idle clients get the goodbye at once: there is nothing to linger for.
        let mut server = Server::new(Arc::clone(&core), id, place, self.most, Duration::ZERO);
        let handshake = listener.handshake.clone();
        server.moves = (!handshake.is_tls()).then(|| (listener.name.to_string(), Kind::Tcp));
        if self.adopter.is_some() {
            server.takes_moved = &[Kind::Tcp];
        }
        let server = Arc::new(server);
        let handlers = Arc::new(Handlers {
            handler: Arc::clone(&self.handler),
            adopter: self.adopter.take(),
            goodbye: std::mem::take(&mut self.goodbye),
        });
        let ours = Arc::clone(&server);
        let serve = move |socket: SharedSocket| {
            let connection = Arc::new(TcpConnection {
                server: Arc::clone(&ours),
                socket: socket.clone(),
                waker: WakerCell::default(),
                writer: WakerCell::default(),
            });
            let (handlers, minded) = (Arc::clone(&handlers), Arc::clone(&connection));
            let handshake = handshake.clone();
            ours.spawn(connection, async move {
                if let Some(stream) = shake_hands(&minded.server, &handshake, socket).await {
                    handle_connection(minded, stream, &handlers).await;
                }
            });
        };
        let stop = Stop::new(Arc::clone(&core));
        let run = Box::new(move |_| -> BoxFuture<crate::Result> {
            Box::pin(server.run(listener, serve))
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for TcpBuilder<'_> {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take()
            && let Err(error) = self.start(listener)
        {
            self.app.misuse(error);
        }
    }
}

/// What a server does with its connections.
struct Handlers {
    handler: ConnHandler,
    adopter: Option<ConnAdopter>,
    goodbye: Cow<'static, [u8]>,
}

struct TcpConnection {
    server: Arc<Server>,
    socket: SharedSocket,
    /// Wakes the task that reads.
    waker: WakerCell,
    /// Wakes the task that waits to write.
    writer: WakerCell,
}

/// Whether the client has gone, or was cut off.
fn is_departure(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(BrokenPipe | ConnectionAborted | ConnectionReset))
}

impl TcpConnection {
    fn conversation(&self) -> Activity {
        Activity {
            what: "conversation".to_owned(),
            with: format!("with {}", self.socket.peer()),
        }
    }
}

impl ManagedConnection for TcpConnection {
    fn wake(&self) {
        self.waker.wake();
        self.writer.wake();
    }

    fn activity(&self, stream: Option<u64>) -> Option<Activity> {
        stream.is_none().then(|| self.conversation())
    }
}

/// Names a client whose handler was cut.
struct InHand {
    connection: Arc<TcpConnection>,
    began: std::time::Instant,
    over: bool,
}

impl Drop for InHand {
    fn drop(&mut self) {
        if !self.over {
            self.connection.server.record_lost(
                self.connection.conversation().to_string(),
                self.began.elapsed(),
            );
            self.connection.socket.cut();
        }
    }
}

/// The connection once the listener has what it asks for; `None` if the client does not give it.
///
/// A handshake has a limit, and a shorter one once the service stops: a client cannot hold the drain with half a one.
async fn shake_hands(
    server: &Server,
    handshake: &Handshake,
    socket: SharedSocket,
) -> Option<Stream> {
    let awaits_header = handshake.awaits_header(&socket);
    if !awaits_header && !handshake.is_tls() {
        return Some(Stream::Plain(socket));
    }
    let stopping = async {
        server.closing.wait().await;
        tokio::time::sleep(server.clamp_to_drain(HANDSHAKE_TIMEOUT_IN_STOP)).await;
    };
    let mut state = "in the TLS handshake";
    let shaking = async {
        if awaits_header {
            state = "without a whole PROXY header";
            handshake.read_header(&socket).await?;
            state = "in the TLS handshake";
        }
        handshake.secure(socket.clone()).await
    };
    // Whichever branch loses, the connection is closed or in the handshake's result: nothing is half-way.
    match race(tokio::time::timeout(HANDSHAKE_TIMEOUT, shaking), stopping).await {
        Winner::First(Ok(Ok(stream))) => return Some(stream),
        Winner::First(Ok(Err(refusal))) => server.count_refused(&refusal, &socket),
        Winner::First(Err(_)) | Winner::Second(()) => {
            server.count_closed(state, false, || socket.peer());
        }
    }
    None
}

/// One connection from its first byte to the goodbye. Dropped half-way, it is cut and named.
async fn handle_connection(connection: Arc<TcpConnection>, stream: Stream, handlers: &Handlers) {
    let mut in_hand = InHand {
        connection: Arc::clone(&connection),
        began: std::time::Instant::now(),
        over: false,
    };
    let snapshot = connection.socket.take_snapshot().unwrap_or_default();
    let stop = Stop::new(Arc::clone(&connection.server.core));
    let lender = Arc::default();
    let conn = Conn {
        lent: ReturnedConn {
            stream: Some(stream),
            unread: snapshot.unread,
            carried: None,
        },
        lender: Arc::clone(&lender),
        connection: Arc::clone(&connection),
        stop,
        reader: None,
        owed: None,
        stall: None,
    };
    let is_adopted = snapshot.state.is_some();
    let work = match (snapshot.state, &handlers.adopter) {
        (Some(state), Some(adopter)) => adopter(conn, state.into()),
        _ => (handlers.handler)(conn),
    };
    let ended = work.await;
    in_hand.over = true;
    let is_refused = is_adopted && ended.is_err();
    let has_failed = ended.is_err();
    if let Err(error) = ended {
        let peer = connection.socket.peer();
        connection.server.core.log_deferred(move || {
            // That clients go away is everyday life, and no reason to fill a log.
            if is_departure(&*error) {
                tracing::debug!(target: "adieu", peer, %error, "a connection failed");
            } else {
                tracing::warn!(target: "adieu", peer, %error, "a connection failed");
            }
        });
    }
    let lent: ReturnedConn =
        std::mem::take(&mut *lender.lock().unwrap_or_else(PoisonError::into_inner));
    let is_stopping = connection.server.drain_stage() >= DrainStage::Lingering;
    let Some(mut stream) = lent.stream.filter(|_| is_stopping || is_refused) else {
        return;
    };
    if let Some(carried) = lent.carried.filter(|_| !has_failed)
        && matches!(stream, Stream::Plain(_))
        && move_out(&connection, carried, &lent.unread).await
    {
        return;
    }
    let goodbye = &handlers.goodbye;
    // The client may be gone already, or may not care; nothing is lost by that.
    let goodbye = async {
        stream.write_all(goodbye).await?;
        stream.shutdown().await
    };
    // Its own bound: with thousands of clients at once it takes a while until the kernel has told of the last
    // one that it may be written to.
    let in_time = |limit| {
        let server = &connection.server;
        server
            .clamp_to_drain(limit)
            .min(server.until_final_cutoff())
    };
    let said = tokio::time::timeout(in_time(GOODBYE_TIMEOUT), goodbye).await;
    if !matches!(said, Ok(Ok(()))) {
        return;
    }
    // Closing with unread data would reset the connection and take the goodbye with it.
    let parting = async {
        let mut sink = [0; 1_024];
        while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    };
    let _ = tokio::time::timeout(in_time(CLIENT_CLOSE_WAIT), parting).await;
}

/// Gives a connection that its handler has left to the new process; says whether that has it now.
///
/// Dropped half-way, at the end of the drain, this process's copy is closed: the new process may have the connection.
async fn move_out(connection: &TcpConnection, carried: Carried, unread: &[u8]) -> bool {
    let server = &connection.server;
    let Some(successor) = server.successor() else {
        return false;
    };
    let Some(turn) = Arc::clone(successor).turn().await else {
        return false;
    };
    let (state, read) = carried.into_parts();
    let snapshot = ConnectionSnapshot {
        peer: connection.socket.peer_addr(),
        unread: [&read, unread].concat(),
        state: Some(state),
        ..ConnectionSnapshot::default()
    };
    server
        .move_out(
            turn,
            Kind::Tcp,
            &connection.socket,
            snapshot,
            "with a handler's state",
        )
        .await
}

/// What a connection goes back with when its handler drops it.
#[derive(Default)]
struct ReturnedConn {
    stream: Option<Stream>,
    /// Read by the old process, and to be read before anything else.
    unread: Vec<u8>,
    /// What the handler leaves to the new process.
    carried: Option<Carried>,
}

/// A connection, as its handler sees it.
///
/// When the service stops, reading goes on until everything the client had sent is read, and then ends as if
/// the client had hung up: a handler that reads to the end needs to know nothing of the stop. A client that never
/// pauses is read for half a second more, and no further than that once all it had sent before is read; writing to one
/// that takes nothing for two seconds fails. One that wants to know has [`Conn::stop`].
pub struct Conn {
    lent: ReturnedConn,
    /// Where it goes back to when the handler drops the connection: for the goodbye, or for the new process.
    lender: Arc<Mutex<ReturnedConn>>,
    connection: Arc<TcpConnection>,
    stop: Stop,
    /// Who was last heard to listen.
    reader: Option<Waker>,
    /// What the client had sent before the stop, and was not read yet when the first look at it was taken.
    owed: Option<u64>,
    /// A write that has begun and does not go on.
    stall: Option<Stall>,
}

impl Conn {
    /// The stop, for handlers that want to know.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> String {
        self.connection.socket.peer()
    }

    /// The client's address; `None` for a client of a Unix socket.
    #[must_use]
    pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.connection.socket.peer_addr()
    }

    /// The address of the proxy whose [PROXY header](Listener::proxy_protocol) has the client's address; `None` for a client
    /// that has connected by itself.
    #[must_use]
    pub fn proxy_addr(&self) -> Option<std::net::SocketAddr> {
        self.connection.socket.proxy_addr()
    }

    /// The address that the client has connected to; `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<std::net::SocketAddr> {
        self.connection.socket.local_addr()
    }

    /// Leaves the connection to the new process with this state, once the handler has returned: if a
    /// [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md) has stopped this one, and the new one
    /// [adopts](TcpBuilder::adopt) connections of this listener. Else it ends as without this call. The last call counts.
    ///
    /// The handler calls it when it has finished what it had begun, such as after the end of reading. What it has read and
    /// not handled goes into [`Carried::unread`]; what it has not read stays with the connection.
    ///
    /// # Errors
    /// The state is too large: more than 64 KiB.
    pub fn carry(&mut self, state: Carried) -> io::Result<()> {
        state.check()?;
        self.lent.carried = Some(state);
        Ok(())
    }

    /// Registers the task that reads, which is nearly always the task of the last call.
    fn register_reader(&mut self, cx: &Context<'_>) {
        let is_known = (self.reader.as_ref()).is_some_and(|it| it.will_wake(cx.waker()));
        if is_known {
            self.connection.waker.register_if_unset(cx);
        } else {
            self.reader = Some(cx.waker().clone());
            self.connection.waker.register(cx);
        }
    }

    /// Whether the service stops, all that was sent before is read, and the client goes on and on.
    fn has_read_enough(&mut self) -> bool {
        let server = &self.connection.server;
        if server.drain_stage() < DrainStage::Lingering {
            return false;
        }
        let socket = &self.connection.socket;
        let owed = *self.owed.get_or_insert_with(|| socket.unread());
        owed == 0
            && server.stage_age(DrainStage::Lingering) > server.clamp_to_drain(READ_LIMIT_IN_STOP)
    }

    /// A write or flush, which fails in a stop if the client takes nothing for a while.
    fn unless_stalled<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let TcpConnection {
            server,
            socket,
            writer,
            ..
        } = &*self.connection;
        // Before the look at the drain stage: a change after it wakes this task.
        writer.register(cx);
        if server.drain_stage() < DrainStage::Lingering {
            return Poll::Pending;
        }
        let stall = self.stall.get_or_insert_with(|| Stall::new(socket));
        if !stall.is_over(socket, server.clamp_to_drain(STALL_TIMEOUT), cx) {
            return Poll::Pending;
        }
        server.count_closed("with a stalled reader", false, || socket.peer());
        // Nor would it hear the goodbye.
        self.lent.stream = None;
        let why = "the client does not read, and the service stops";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        self.lent
            .stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        *self.lender.lock().unwrap_or_else(PoisonError::into_inner) =
            std::mem::take(&mut self.lent);
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unread = &mut self.lent.unread;
        if !unread.is_empty() {
            let count = unread.len().min(buf.remaining());
            buf.put_slice(&unread[..count]);
            unread.drain(..count);
            return Poll::Ready(Ok(()));
        }
        if self.has_read_enough() {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = self.stream()?.poll_read(cx, buf);
        if polled.is_ready() {
            if let Some(owed) = &mut self.owed {
                *owed = owed.saturating_sub((buf.filled().len() - before) as u64);
            }
            return polled;
        }
        // Before the look at the drain stage: a change after it wakes this task.
        self.register_reader(cx);
        let stopping = self.connection.server.drain_stage() >= DrainStage::Lingering;
        // What the kernel has and the runtime does not know of yet will wake us; only silence is the end.
        if stopping && !self.connection.socket.has_unread() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream()?.poll_write(cx, bytes);
        self.unless_stalled(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream()?.poll_flush(cx);
        self.unless_stalled(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}
