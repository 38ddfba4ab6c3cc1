//! The connections of an admin port: how many there may be, and which one makes room for the next.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use crate::net::{ReservedFds, SharedSocket};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Connections at a time from one address.
const MAX_PER_PEER: usize = 16;

/// Those connected, oldest first. Cut when dropped.
#[derive(Default)]
pub(super) struct AdminConns {
    pub(super) all: JoinSet<()>,
    oldest_first: VecDeque<AdminConn>,
}

struct AdminConn {
    task: AbortHandle,
    peer: Option<IpAddr>,
    shared: Arc<AdminConnState>,
}

/// What the port knows of a connection while its task serves it.
struct AdminConnState {
    /// Gone once the connection is closed. Locked for each read: what the client has sent is in the kernel or in
    /// `has_sent`, and at no moment in neither.
    socket: Mutex<Option<SharedSocket>>,
    /// A read has brought something.
    has_sent: AtomicBool,
    /// Its request is there up to the end of its head: an answer is being made.
    has_head: AtomicBool,
    reserve: ReservedFds,
}

impl AdminConnState {
    fn socket(&self) -> MutexGuard<'_, Option<SharedSocket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client has sent nothing: neither has its task read anything, nor does anything wait to be read.
    fn is_silent(&self) -> bool {
        let socket = self.socket();
        !self.has_sent.load(Relaxed) && !socket.as_ref().is_some_and(SharedSocket::has_unread)
    }
}

/// A connection in the hands of the task that serves it.
pub(super) struct AcceptedConn {
    // Before the end: that closes the last hold on the socket.
    pub(super) io: AdminConnIo,
    pub(super) end: CloseOnDrop,
}

/// The bytes of a connection. A read and the note that it brought something are one step for the accept loop, which
/// else could take the connection for silent between the two, and cut it.
pub(super) struct AdminConnIo {
    socket: SharedSocket,
    shared: Arc<AdminConnState>,
}

impl AsyncRead for AdminConnIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, shared } = self.get_mut();
        let _locked = shared.socket();
        let before = buf.filled().len();
        let polled = Pin::new(socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            shared.has_sent.store(true, Relaxed);
        }
        polled
    }
}

impl AsyncWrite for AdminConnIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Closes the connection when dropped, and keeps its descriptor if the reserve lacks one.
pub(super) struct CloseOnDrop(Arc<AdminConnState>);

impl CloseOnDrop {
    /// Says that the request is there: from here on the connection is not cut for another.
    pub(super) fn asked(&self) -> impl Fn() + use<> {
        let shared = Arc::clone(&self.0);
        move || shared.has_head.store(true, Relaxed)
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let socket = self.0.socket().take();
        if let Some(socket) = socket {
            self.0.reserve.reclaim(socket);
        }
    }
}

impl AdminConns {
    /// Serves one more, if there is room or one can be cut for it; else it is closed.
    pub(super) fn admit<F>(
        &mut self,
        runtime: &Handle,
        socket: SharedSocket,
        reserve: &ReservedFds,
        serve: impl FnOnce(AcceptedConn) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let peer = socket.peer_ip();
        let shared = Arc::new(AdminConnState {
            socket: Mutex::new(Some(socket.clone())),
            has_sent: AtomicBool::new(false),
            has_head: AtomicBool::new(false),
            reserve: reserve.clone(),
        });
        let end = CloseOnDrop(Arc::clone(&shared));
        let io = AdminConnIo {
            socket,
            shared: Arc::clone(&shared),
        };
        let accepted = AcceptedConn { io, end };
        if self.has_room(peer) {
            let task = self.all.spawn_on(serve(accepted), runtime);
            self.oldest_first
                .push_back(AdminConn { task, peer, shared });
        }
    }

    /// Whether one more from this address may stay. Those of its own address make room for it, if it has many.
    fn has_room(&mut self, peer: Option<IpAddr>) -> bool {
        self.oldest_first
            .retain(|connection| !connection.task.is_finished());
        let from_peer = |connection: &AdminConn| peer.is_some() && connection.peer == peer;
        let its = self
            .oldest_first
            .iter()
            .filter(|connection| from_peer(connection));
        if its.count() >= MAX_PER_PEER {
            self.cut_one(from_peer)
        } else {
            self.oldest_first.len() < MAX_CONNECTIONS || self.cut_one(|_| true)
        }
    }

    /// Cuts the oldest for lack of descriptors, if there is one that may be cut; `all` then reports its end.
    pub(super) fn make_room(&mut self) {
        self.cut_one(|_| true);
    }

    /// Cuts the oldest of these that has sent nothing, or else the oldest that has not sent a whole head. None whose
    /// answer is being made: it has its time, and a bound.
    fn cut_one(&mut self, of_these: impl Fn(&AdminConn) -> bool) -> bool {
        let may_be_cut = |connection: &&AdminConn| {
            of_these(connection) && !connection.shared.has_head.load(Relaxed)
        };
        let connections = self.oldest_first.iter().enumerate();
        let mut candidates = connections.filter(|(_, connection)| may_be_cut(connection));
        let oldest = candidates.clone().next();
        let silent = candidates.find(|(_, connection)| connection.shared.is_silent());
        let Some((number, _)) = silent.or(oldest) else {
            return false;
        };
        if let Some(connection) = self.oldest_first.remove(number) {
            connection.task.abort();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::*;

    /// Between the read of a head and its first look at it, hyper may be held up for as long as other threads have the
    /// processor; the accept loop goes on meanwhile.
    #[tokio::test]
    async fn a_head_that_was_read_and_not_yet_parsed_is_not_cut_before_silent_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (mut connections, reserve) = (AdminConns::default(), ReservedFds::new());
        let (say, mut has_read) = mpsc::unbounded_channel();
        let mut clients = Vec::new();
        for number in 0..2 * MAX_PER_PEER {
            let mut client = TcpStream::connect(address).await.expect("it listens");
            let (server_side, peer) = listener.accept().await.expect("a connection");
            if number == 0 {
                client.write_all(b"GET").await.expect("the kernel takes it");
            }
            let say = say.clone();
            let read_once = move |mut accepted: AcceptedConn| async move {
                let count = accepted.io.read(&mut [0; 64]).await.unwrap_or(0);
                let _ = say.send(count);
                std::future::pending::<()>().await;
            };
            connections.admit(
                &Handle::current(),
                SharedSocket::tcp(server_side, Some(peer)),
                &reserve,
                read_once,
            );
            if number == 0 {
                assert_eq!(has_read.recv().await, Some(3));
            }
            clients.push(client);
        }
        let first = &connections.oldest_first[0];
        assert!(first.shared.has_sent.load(Relaxed), "the first was cut");
        assert_eq!(connections.oldest_first.len(), MAX_PER_PEER);
    }
}
