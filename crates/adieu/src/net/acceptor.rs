//! Connections taken from the accept queue, for the servers and for the admin port.
//!
//! What happens when there are too many of them differs: a server holds one client back and evicts an idle connection
//! (`server`), the admin port cuts a silent one (`admin::connections`).

use std::io;
#[cfg(feature = "admin")]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use super::os::{self, SHORTAGES, UnixListener, UnixStream};
use super::socket::SharedSocket;

/// Descriptors that an accept loop can fall back on when the process has none left.
pub(crate) trait DescriptorReserve {
    /// Closes one, so that the next accept finds a free number; says whether there was one.
    fn release(&self) -> bool;

    /// Opens those that are missing again, as far as there are descriptors.
    fn restock(&self);
}

/// Held by an accept loop for one call that does not wait.
#[cfg(feature = "admin")]
static ACCEPT_LOCK: Mutex<()> = Mutex::new(());

/// Keeps the other accept loops of this process from accepting.
#[cfg(feature = "admin")]
pub(super) fn lock_accepts() -> MutexGuard<'static, ()> {
    ACCEPT_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For an accept loop that waits for a descriptor instead.
pub(super) struct NoReserve;

impl DescriptorReserve for NoReserve {
    fn release(&self) -> bool {
        false
    }

    fn restock(&self) {}
}

pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// The next connection, if there is one; else the task is woken when there is, and no other that asked before.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<SharedSocket>> {
        match self {
            Self::Tcp(listener) => listener
                .poll_accept(cx)
                .map_ok(|(stream, peer)| SharedSocket::tcp(stream, Some(peer))),
            Self::Unix(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| stream.into()),
        }
    }

    /// A connection that is in the queue at this moment, asked of the kernel: what the runtime knows may be
    /// older.
    pub(super) fn accept_now(&self) -> io::Result<SharedSocket> {
        #[cfg(feature = "admin")]
        let _locked = lock_accepts();
        match self {
            Self::Tcp(listener) => {
                let (socket, peer) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                let stream = TcpStream::from_std(socket.into())?;
                Ok(SharedSocket::tcp(stream, peer.as_socket()))
            }
            Self::Unix(listener) => {
                let (socket, _) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                UnixStream::from_std(socket.into()).map(Into::into)
            }
        }
    }

    /// Whether a connection is in the queue at this moment.
    pub(super) fn has_queued(&self) -> bool {
        match self {
            Self::Tcp(listener) => os::has_queued(&SockRef::from(listener)),
            Self::Unix(listener) => os::has_queued(&SockRef::from(listener)),
        }
    }

    /// The next connection, in the place of a reserved descriptor if there is no other. An error is a shortage that the
    /// reserve does not cover. A reserve is given up only after the kernel has announced a connection. One task at a time.
    ///
    /// Cancel-safe: a connection is either returned or still in the queue.
    pub(super) async fn accept(
        &self,
        reserve: &impl DescriptorReserve,
    ) -> io::Result<SharedSocket> {
        std::future::poll_fn(|cx| {
            #[cfg(feature = "admin")]
            let _locked = lock_accepts();
            loop {
                let accepted = self.poll_accept(cx);
                match &accepted {
                    Poll::Ready(Err(error)) if is_passing(error) => {}
                    Poll::Ready(Err(error)) if is_shortage(error) => {
                        if !reserve.release() {
                            return accepted;
                        }
                    }
                    _ => {
                        // Also if the queue was empty after all.
                        reserve.restock();
                        return accepted;
                    }
                }
            }
        })
        .await
    }
}

/// An error that is over once a descriptor is closed or memory is freed: EMFILE and similar ones.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| SHORTAGES.contains(&code))
}

/// An error of one connection that gave up in the queue, and not of the listener.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}
