//! One process of the command as a server of ours: where it listens, the connections to it, and what is in flight on them.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::directory::{Directory, SocketFile, listening_inode};
use super::placeholder::{self, Placeholder};
use super::upload::Upload;
use super::wire::{Stream, Wire, WireState};
use crate::run::{accept_probe, backlog};

/// An idle connection to the command is used again for so long. Servers close idle connections after 2 s at the earliest, and a
/// request that crosses such a close is lost.
const IDLE_REUSE_LIMIT: Duration = Duration::from_secs(1);
/// Idle connections to one generation.
const MOST_IDLE: usize = 256;
/// What a command with a full accept queue has to make room in it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads that wait for room at a time.
const MOST_WAITING: usize = 16;
/// The largest response head of the command.
const HEAD_SIZE: usize = 64 * 1_024;

static WAITING: Semaphore = Semaphore::const_new(MOST_WAITING);

pub(in crate::run) struct Upstream {
    /// Which worker of the command it is.
    pub(super) worker: usize,
    address: UpstreamAddress,
    /// Requests that the command has not answered whole, but for streams of events: those have no end to wait for.
    in_flight: watch::Sender<usize>,
    is_retired: AtomicBool,
    /// Streams of events are to end between two events.
    is_closing: watch::Sender<bool>,
    idle: Mutex<VecDeque<Idle>>,
}

enum UpstreamAddress {
    Socket(SocketFile),
    Port(u16),
}

struct Idle {
    connection: Connection,
    until: Instant,
}

/// A connection to the command.
pub(super) struct Connection {
    sender: SendRequest<Upload>,
    pub(super) state: Arc<WireState>,
}

/// Why no connection could be made. Nothing of the request has reached the command.
pub(super) enum ConnectError {
    /// It does not listen.
    Refused,
    /// It does not accept: its queue was full all the time.
    Full,
    /// We have no means for one.
    Own(io::Error),
}

impl Upstream {
    pub(super) fn new(
        placeholder: Placeholder,
        directory: Option<&Directory>,
        worker: usize,
        generation: u32,
    ) -> io::Result<Self> {
        let address = match (placeholder, directory) {
            (Placeholder::Socket, Some(directory)) => {
                UpstreamAddress::Socket(directory.socket(worker, generation))
            }
            _ => UpstreamAddress::Port(free_port()?),
        };
        Ok(Self {
            worker,
            address,
            in_flight: watch::Sender::new(0),
            is_retired: false.into(),
            is_closing: watch::Sender::new(false),
            idle: Mutex::default(),
        })
    }

    /// The words of the command, with this address in the place of the placeholder.
    pub(in crate::run) fn words(&self, command: &[OsString]) -> Vec<OsString> {
        let filled = |value: &OsStr, it: Placeholder| {
            let words = command.iter();
            words
                .map(|word| placeholder::fill(word, it, value))
                .collect()
        };
        match &self.address {
            UpstreamAddress::Socket(file) => filled(file.path().as_os_str(), Placeholder::Socket),
            UpstreamAddress::Port(port) => filled(port.to_string().as_ref(), Placeholder::Port),
        }
    }

    /// The path of its socket, or its port on this machine.
    pub(in crate::run) fn place(&self) -> Result<&Path, u16> {
        match &self.address {
            UpstreamAddress::Socket(file) => Ok(file.path()),
            UpstreamAddress::Port(port) => Err(*port),
        }
    }

    /// Whether this process, or one below it, waits for connections there. No connection is made, and that of another process
    /// which has taken the port does not count.
    pub(in crate::run) fn is_accepted_on(&self, pid: u32) -> bool {
        let inodes: Vec<u64> = match &self.address {
            UpstreamAddress::Socket(file) => {
                let found = listening_inode(pid, file.path());
                found.ok().flatten().into_iter().collect()
            }
            UpstreamAddress::Port(port) => backlog::listening_on(pid, *port),
        };
        accept_probe::waits_for_connections(pid, &inodes).contains(&true)
    }

    /// How many requests the command has to answer.
    pub(super) fn load(&self) -> usize {
        *self.in_flight.borrow()
    }

    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.send_modify(|count| *count += 1);
        InFlight {
            upstream: Arc::clone(self),
            is_awaited: true,
        }
    }

    /// It gets no more requests. Completes when all are answered, or the time is up; then streams of events end. Dropped half-way,
    /// it gets none all the same.
    pub(in crate::run) async fn retire(&self, time: Duration) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.idle().clear();
        let mut in_flight = self.in_flight.subscribe();
        let _ = timeout(time, in_flight.wait_for(|count| *count == 0)).await;
        self.is_closing.send_replace(true);
    }

    /// Completes when streams of events are to end. Cancel-safe.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.is_closing.subscribe();
        async move { drop(closing.wait_for(|closing| *closing).await) }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The idle connection that was used last, if there is one. Whether the command has closed it is seen when it is used.
    pub(super) fn idle_connection(&self) -> Option<Connection> {
        let now = Instant::now();
        let mut idle = self.idle();
        loop {
            let last = idle.pop_back()?;
            if last.until <= now {
                // So are those before it.
                idle.clear();
                return None;
            }
            if last.connection.sender.is_ready() {
                return Some(last.connection);
            }
        }
    }

    /// A connection that was not used yet. Dropped half-way, it is closed.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let state = Arc::new(WireState::default());
        let stream = self.open().await?;
        let wire = TokioIo::new(Wire::new(stream, Arc::clone(&state)));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_SIZE)
            .handshake(wire)
            .await
            .map_err(|error| ConnectError::Own(io::Error::other(error)))?;
        // It ends when its sender is gone, or the command has closed it. What went wrong is seen by the request.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        Ok(Connection { sender, state })
    }

    async fn open(&self) -> Result<Stream, ConnectError> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotFound => ConnectError::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ConnectError::Full,
            _ => ConnectError::Own(error),
        };
        match &self.address {
            UpstreamAddress::Socket(file) => match UnixStream::connect(file.path()).await {
                Ok(stream) => Ok(Stream::Unix(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let stream = connect_when_there_is_room(file.path()).await;
                    stream.map(Stream::Unix).map_err(refused)
                }
                Err(error) => Err(refused(error)),
            },
            UpstreamAddress::Port(port) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
                let stream = stream.map_err(|_| ConnectError::Full)?.map_err(refused)?;
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// A request on this connection is over: it may have the next one.
    fn keep(self: &Arc<Self>, connection: Connection) {
        if self.is_retired.load(Ordering::Relaxed) || connection.sender.is_closed() {
            return;
        }
        let until = Instant::now() + IDLE_REUSE_LIMIT;
        let mut idle = self.idle();
        if idle.len() >= MOST_IDLE {
            idle.pop_front();
        }
        idle.push_back(Idle { connection, until });
        let is_first = idle.len() == 1;
        drop(idle);
        // The first of them has those closed that are not used again, until there are none.
        if is_first {
            let upstream = Arc::downgrade(self);
            tokio::spawn(async move {
                let mut next = until;
                loop {
                    sleep_until(next).await;
                    let Some(upstream) = upstream.upgrade() else {
                        return;
                    };
                    let mut idle = upstream.idle();
                    let now = Instant::now();
                    while idle.front().is_some_and(|it| it.until <= now) {
                        idle.pop_front();
                    }
                    match idle.front() {
                        Some(first) => next = first.until,
                        None => return,
                    }
                }
            });
        }
    }
}

impl Connection {
    /// Sends a request; see [`SendRequest::try_send_request`].
    pub(super) fn send(
        &mut self,
        request: http::Request<Upload>,
    ) -> impl Future<
        Output = Result<
            http::Response<hyper::body::Incoming>,
            hyper::client::conn::TrySendError<http::Request<Upload>>,
        >,
    > + Send {
        self.sender.try_send_request(request)
    }
}

/// A request that the command has to answer. It is over when this is dropped.
pub(super) struct InFlight {
    upstream: Arc<Upstream>,
    is_awaited: bool,
}

impl InFlight {
    pub(super) const fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Its end is not waited for when the process is replaced.
    pub(super) fn is_not_awaited(&mut self) {
        if std::mem::take(&mut self.is_awaited) {
            let in_flight = &self.upstream.in_flight;
            in_flight.send_modify(|count| *count = count.saturating_sub(1));
        }
    }

    /// The response is read to its end.
    pub(super) fn finish(self, mut connection: Connection) {
        let upstream = Arc::clone(&self.upstream);
        if connection.sender.is_ready() {
            return upstream.keep(connection);
        }
        tokio::spawn(async move {
            // An error: it is closed. The request may still be on its way though it is answered.
            if connection.sender.ready().await.is_ok() {
                upstream.keep(connection);
            }
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.is_not_awaited();
    }
}

/// A port that is free now. Another process may take it before the command does: then the command does not get ready.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// The accept queue of the command is full. The kernel wakes a blocking call when there is room, and no other.
async fn connect_when_there_is_room(path: &Path) -> io::Result<UnixStream> {
    let _turn = timeout(CONNECT_TIMEOUT, WAITING.acquire())
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?;
    let address = SockAddr::unix(path)?;
    let connecting = move || -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        socket.connect(&address)?;
        socket.set_write_timeout(None)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let socket = tokio::task::spawn_blocking(connecting).await??;
    UnixStream::from_std(std::os::fd::OwnedFd::from(socket).into())
}
