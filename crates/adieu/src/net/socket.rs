//! One accepted socket, shared: the driver of a connection can look at it and cut it while another task reads.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

#[cfg(feature = "http")]
use super::connection_snapshot::CarriedCounters;
use super::connection_snapshot::ConnectionSnapshot;
use super::os::{LESS_MEANS_EMPTY, UnixStream};

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected socket. At most one task reads and one writes at a time.
#[derive(Clone)]
pub(crate) struct SharedSocket(Arc<SocketParts>);

struct SocketParts {
    socket: Socket,
    /// The address of the other end, as the kernel gave it with the connection.
    peer: Option<SocketAddr>,
    /// The client's address and the one that it has connected to, by the header of a trusted proxy.
    client: OnceLock<Box<(SocketAddr, SocketAddr)>>,
    /// What came with it from the old process.
    snapshot: Mutex<Option<Box<ConnectionSnapshot>>>,
    /// What the TLS handshake has settled.
    #[cfg(all(feature = "http", feature = "tls-no-provider"))]
    tls: OnceLock<Box<super::TlsInfo>>,
}

impl SharedSocket {
    fn new(socket: Socket, peer: Option<SocketAddr>) -> Self {
        Self::with_snapshot(socket, peer, None)
    }

    fn with_snapshot(
        socket: Socket,
        peer: Option<SocketAddr>,
        snapshot: Option<Box<ConnectionSnapshot>>,
    ) -> Self {
        Self(Arc::new(SocketParts {
            socket,
            peer,
            client: OnceLock::new(),
            snapshot: Mutex::new(snapshot),
            #[cfg(all(feature = "http", feature = "tls-no-provider"))]
            tls: OnceLock::new(),
        }))
    }

    pub(crate) fn tcp(stream: TcpStream, peer: Option<SocketAddr>) -> Self {
        // Answers are written whole; waiting to fill a packet only delays their end.
        let _ = stream.set_nodelay(true);
        Self::new(Socket::Tcp(stream), peer)
    }
}

impl SharedSocket {
    /// A connection that the old process had. An error closes this process's copy of it.
    #[cfg(target_os = "linux")]
    pub(super) fn arrived(
        descriptor: super::os::Descriptor,
        snapshot: ConnectionSnapshot,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::from(descriptor);
        if socket.r#type()? != socket2::Type::STREAM || socket.is_listener()? {
            return Err(io::Error::other("it is not a connection"));
        }
        socket.set_nonblocking(true)?;
        let peer = snapshot.peer;
        let socket = if socket.domain()? == socket2::Domain::UNIX {
            Socket::Unix(UnixStream::from_std(socket.into())?)
        } else {
            Socket::Tcp(TcpStream::from_std(socket.into())?)
        };
        Ok(Self::with_snapshot(socket, peer, Some(Box::new(snapshot))))
    }

    fn snapshot(&self) -> MutexGuard<'_, Option<Box<ConnectionSnapshot>>> {
        let snapshot = self.0.snapshot.lock();
        snapshot.unwrap_or_else(PoisonError::into_inner)
    }

    /// What the connection has been through in the old process; nothing for one that this process has accepted.
    #[cfg(feature = "http")]
    pub(crate) fn carried_counters(&self) -> Option<CarriedCounters> {
        self.snapshot().as_ref().map(|snapshot| snapshot.counters)
    }

    /// Whether another process has accepted it, and has read what comes before the first request.
    pub(crate) fn is_carried(&self) -> bool {
        self.snapshot().is_some()
    }

    /// What came with it, once: what was read there and handled nowhere comes before all that is read here.
    pub(crate) fn take_snapshot(&self) -> Option<ConnectionSnapshot> {
        self.snapshot().take().map(|snapshot| *snapshot)
    }

    /// The descriptor, for the new process.
    #[cfg(target_os = "linux")]
    pub(super) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::AsFd;
        match &self.0.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl From<UnixStream> for SharedSocket {
    fn from(stream: UnixStream) -> Self {
        Self::new(Socket::Unix(stream), None)
    }
}

impl SharedSocket {
    fn sock_ref(&self) -> SockRef<'_> {
        match &self.0.socket {
            Socket::Tcp(stream) => SockRef::from(stream),
            Socket::Unix(stream) => SockRef::from(stream),
        }
    }

    /// Whether something can be read at this moment, asked of the kernel: what the runtime knows may be older.
    pub(crate) fn has_unread(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        self.sock_ref().peek(&mut byte).is_ok_and(|count| count > 0)
    }

    /// Whether the other end has closed its side, and whether it is gone for good. If neither, and nothing waits to be
    /// read, the task is woken when it does.
    #[cfg(feature = "http")]
    pub(crate) fn peer_hangup(&self, cx: &mut Context<'_>) -> (bool, bool) {
        let ready = match &self.0.socket {
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
            Socket::Unix(stream) => stream.poll_read_ready(cx),
        };
        match ready {
            Poll::Ready(_) => super::os::peer_hangup(&self.sock_ref()),
            Poll::Pending => (false, false),
        }
    }

    /// How much there is to be read at this moment; 0 where that cannot be known.
    pub(crate) fn unread(&self) -> u64 {
        super::os::unread(&self.sock_ref()).unwrap_or(0)
    }

    /// Reads and forgets what has come in, up to a bound: a client that never pauses has no claim to more.
    #[cfg(feature = "http")]
    pub(crate) fn discard_unread(&self) {
        let mut sink = [MaybeUninit::uninit(); 4_096];
        for _ in 0..64 {
            if !self.sock_ref().recv(&mut sink).is_ok_and(|count| count > 0) {
                return;
            }
        }
    }

    /// How much of what was written the other end has not taken yet; 0 where that cannot be known.
    pub(crate) fn unacknowledged(&self) -> u32 {
        super::os::unacknowledged(&self.sock_ref()).unwrap_or(0)
    }

    /// From here on what is written leaves with the end of our side.
    #[cfg(feature = "http")]
    pub(crate) fn cork(&self) {
        #[cfg(target_os = "linux")]
        if let Socket::Tcp(stream) = &self.0.socket {
            // Without it the two leave one after the other.
            let _ = SockRef::from(stream).set_tcp_cork(true);
        }
    }

    /// Ends the connection for every task that holds it.
    pub(crate) fn cut(&self) {
        let _ = self.sock_ref().shutdown(Shutdown::Both);
    }

    /// The descriptor, for the last who holds it: the runtime forgets the socket, and it is still open.
    #[cfg(feature = "admin")]
    pub(crate) fn into_descriptor(self) -> Option<super::os::Descriptor> {
        match Arc::into_inner(self.0)?.socket {
            Socket::Tcp(stream) => stream.into_std().ok().map(Into::into),
            Socket::Unix(stream) => stream.into_std().ok().map(Into::into),
        }
    }

    /// The address of the other end, if it has one.
    #[cfg(feature = "admin")]
    pub(crate) fn peer_ip(&self) -> Option<std::net::IpAddr> {
        self.peer_addr().map(|peer| peer.ip().to_canonical())
    }

    /// The client's address; `None` for a Unix socket.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        let client = self.0.client.get().map(|client| client.0);
        client.or(self.0.peer)
    }

    /// The address of the other end, which is a proxy's where the client's came in a header.
    pub(super) fn connected_addr(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The address of the proxy that has said who the client is.
    pub(crate) fn proxy_addr(&self) -> Option<SocketAddr> {
        self.0.client.get().and(self.0.peer)
    }

    /// A trusted proxy says that it carries a connection from `source` to `destination`.
    pub(super) fn set_client(&self, source: SocketAddr, destination: SocketAddr) {
        let _ = self.0.client.set(Box::new((source, destination)));
    }

    pub(super) fn is_unix(&self) -> bool {
        matches!(self.0.socket, Socket::Unix(_))
    }

    /// The address that the client has connected to; `None` for a Unix socket.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        if let Some(client) = self.0.client.get() {
            return Some(client.1);
        }
        match &self.0.socket {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// The handshake is over.
    #[cfg(all(feature = "http", feature = "tls-no-provider"))]
    pub(crate) fn set_tls(&self, tls: super::TlsInfo) {
        let _ = self.0.tls.set(Box::new(tls));
    }

    /// What the TLS handshake has settled; `None` before its end, and without TLS.
    #[cfg(all(feature = "http", feature = "tls-no-provider"))]
    pub(crate) fn tls(&self) -> Option<&super::TlsInfo> {
        self.0.tls.get().map(|tls| &**tls)
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> String {
        match (self.peer_addr(), &self.0.socket) {
            (Some(peer), _) => peer.to_string(),
            (None, Socket::Unix(_)) => "unix".to_owned(),
            (None, Socket::Tcp(_)) => "?".to_owned(),
        }
    }
}

/// Reads what there is. A read that leaves room has emptied the socket: the runtime's readiness is cleared,
/// or the next read would be a system call that finds nothing. What comes in between has its own event, which is kept.
macro_rules! read_now {
    ($stream:ident, $buf:ident) => {{
        let mut read = Err(io::ErrorKind::WouldBlock.into());
        let _ = $stream.try_io(Interest::READABLE, || {
            // Not by the runtime's own read, which would ask again what was asked for this one.
            #[cfg(unix)]
            let now = crate::util::sys::receive(std::os::fd::AsFd::as_fd($stream), $buf);
            #[cfg(not(unix))]
            let now = $stream.try_read_buf($buf);
            read = now;
            match &read {
                Ok(1..) if LESS_MEANS_EMPTY && $buf.remaining() > 0 => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                _ => Ok(()),
            }
        });
        read
    }};
}

/// What fits in here is put together first: to copy it costs less than to have the kernel go through a list.
const SMALL: usize = 512;

/// The pieces as one, if there is only one or all of them are small.
fn joined<'a>(pieces: &'a [io::IoSlice<'_>], room: &'a mut [u8; SMALL]) -> Option<&'a [u8]> {
    if let [piece] = pieces {
        return Some(piece);
    }
    let mut end = 0;
    for piece in pieces {
        room.get_mut(end..end + piece.len())?.copy_from_slice(piece);
        end += piece.len();
    }
    Some(&room[..end])
}

impl AsyncRead for SharedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let read = match &self.0.socket {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    read_now!(stream, buf)
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    read_now!(stream, buf)
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match &self.0.socket {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_write(bytes)
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_write(bytes)
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(bytes) = joined(bytes, &mut [0; SMALL]) {
            return self.poll_write(cx, bytes);
        }
        loop {
            let written = match &self.0.socket {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_write_vectored(bytes)
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_write_vectored(bytes)
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.sock_ref().shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_put_together() {
        let (head, body, large) = ([b'h'; 100], [b'b'; 13], [b'l'; SMALL]);
        let whole = |pieces: &[&[u8]]| {
            let pieces: Vec<_> = pieces.iter().map(|it| io::IoSlice::new(it)).collect();
            joined(&pieces, &mut [0; SMALL]).map(<[u8]>::to_vec)
        };
        assert_eq!(
            whole(&[&head, &body]),
            Some([&head[..], &body[..]].concat())
        );
        assert_eq!(
            whole(&[&large]),
            Some(large.to_vec()),
            "one is whole already"
        );
        assert_eq!(whole(&[&head, &large]), None, "large ones are not copied");
        assert_eq!(
            whole(&[&large[..500], &body[..12]]).map(|it| it.len()),
            Some(SMALL)
        );
        assert_eq!(whole(&[]), Some(Vec::new()));
    }
}
