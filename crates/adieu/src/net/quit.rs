//! Taking a listener away without losing a connection.
//!
//! Closing a listening socket resets every connection in its queue. So it is hidden first ("cloaked"): new
//! connections are refused at once, while handshakes half done still arrive in the queue; then the queue is
//! emptied until it is quiet, and only then is the socket closed. Where hiding does not work, emptying the
//! queue is still better than nothing.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::accept::Server;
use super::estate::Keeper;
use super::listen::{Acceptor, Listening};
use super::platform::{SHORTAGES, UnixStream};
use super::wire::Wire;

/// How a listener was taken away; stands in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux can hide a listener")
    )]
    Cloaked,
    Emptied,
    Unlinked,
    /// It lives on elsewhere, with its queue.
    Left(Keeper),
}

impl Way {
    pub(super) fn note(self) -> String {
        match self {
            Self::Cloaked => "listener cloaked, queue emptied, closed",
            Self::Emptied => "listener's queue emptied, closed (this system cannot cloak it)",
            Self::Unlinked => "socket file removed, queue emptied, closed",
            Self::Left(Keeper::Successor(pid)) => {
                return format!("listener handed over to process {pid}");
            }
            Self::Left(Keeper::Predecessor) => "listener left to the process that has it",
            Self::Left(_) => "listener left, with its queue, to whoever started us",
        }
        .to_owned()
    }
}

/// How long to wait for the word whose a listener is that was just being handed over.
const DECISION: Duration = Duration::from_secs(1);

/// The queue counts as quiet after this long without a connection: longer than most round trips, because the
/// last step of a handshake may still be on its way.
const QUIET: Duration = Duration::from_millis(150);
/// Emptying ends after this long in any case, but for want of descriptors.
const CAP: Duration = Duration::from_secs(1);

static CLOAKS: OnceLock<bool> = OnceLock::new();

/// Finds out, once, whether cloaking works here: on a socket of our own, on loopback.
pub(super) fn probe() -> bool {
    *CLOAKS.get_or_init(|| try_cloak().unwrap_or(false))
}

#[cfg(target_os = "linux")]
fn try_cloak() -> io::Result<bool> {
    use std::net::{Ipv4Addr, TcpListener, TcpStream as StdStream};
    use std::os::fd::AsFd;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    StdStream::connect_timeout(&address, Duration::from_millis(200))?;
    crate::sys::cloak(listener.as_fd())?;
    let refused = StdStream::connect_timeout(&address, Duration::from_millis(200));
    Ok(refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(not(target_os = "linux"))]
fn try_cloak() -> io::Result<bool> {
    Ok(false)
}

impl Acceptor {
    /// A connection that is in the queue at this moment, asked of the kernel: what the runtime knows may be
    /// older.
    pub(super) fn accept_now(&self) -> io::Result<Wire> {
        match self {
            Self::Tcp(listener) => {
                let (socket, _) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                TcpStream::from_std(socket.into()).map(Into::into)
            }
            Self::Unix(listener) => {
                let (socket, _) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                UnixStream::from_std(socket.into()).map(Into::into)
            }
        }
    }

    /// Hands over all that are in the queue, and says how many; an error if somebody is there and cannot be accepted.
    fn take_all(&self, mut serve: impl FnMut(Wire)) -> io::Result<usize> {
        let mut count = 0;
        loop {
            match self.accept_now() {
                Ok(wire) => {
                    serve(wire);
                    count += 1;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Listening {
    /// The next connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<Wire> {
        match &self.acceptor {
            Acceptor::Tcp(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
            Acceptor::Unix(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
        }
    }

    /// Completes when it is known whether another process goes on with it; a hand-off may be under way. Cancel-safe.
    pub(super) async fn decided(&self) {
        let _ = tokio::time::timeout(DECISION, self.hold.decided()).await;
    }

    /// Takes the listener out of sight: whoever comes now is refused. One that another process goes on with is not hidden.
    pub(super) fn hide(&mut self) -> Way {
        match (self.hold.keeper(), &self.acceptor) {
            (Keeper::Nobody, Acceptor::Unix(_)) => {
                self.hold.remove_file();
                Way::Unlinked
            }
            #[cfg(target_os = "linux")]
            (Keeper::Nobody, Acceptor::Tcp(listener)) => {
                use std::os::fd::AsFd;
                let cloaked = probe() && crate::sys::cloak(listener.as_fd()).is_ok();
                if cloaked { Way::Cloaked } else { Way::Emptied }
            }
            #[cfg(not(target_os = "linux"))]
            (Keeper::Nobody, Acceptor::Tcp(_)) => Way::Emptied,
            // Hiding it would hide it for its keeper too, and what is in the queue is served there.
            (keeper, _) => Way::Left(keeper),
        }
    }

    /// Hands every connection that is or still comes into the queue of a hidden listener to `serve`, and closes it. Waits
    /// for late ones only if there was traffic lately: an idle service is gone at once.
    ///
    /// Dropped half-way, the listener closes at once, and whoever is known to be in its queue is named.
    pub(super) async fn empty(
        self,
        had_traffic: bool,
        server: &Server,
        mut serve: impl FnMut(Wire),
    ) {
        let (quiet, cap) = (server.bounded(QUIET), server.bounded(CAP));
        let mut until = Instant::now() + cap;
        let mut is_quiet = !had_traffic;
        let mut left = LeftBehind {
            server,
            since: None,
        };
        loop {
            // Also after a quiet time: on a busy machine the timer may be the first to be heard.
            match self.acceptor.take_all(&mut serve) {
                Ok(0) if is_quiet => return,
                Ok(_) => left.since = None,
                // Somebody is there, and there is no descriptor for it yet: that ends with the drain at the latest.
                Err(error) if is_shortage(&error) => {
                    left.since.get_or_insert_with(Instant::now);
                    is_quiet = false;
                    server.make_room();
                    server.crowd.breath().await;
                    until = Instant::now() + cap;
                    continue;
                }
                // Somebody has taken the listener away already.
                Err(_) => return,
            }
            let now = Instant::now();
            if now >= until {
                return;
            }
            // `accept` is cancel-safe: a connection is either handed out or still in the queue.
            match tokio::time::timeout_at(until.min(now + quiet), self.accept()).await {
                Ok(Ok(wire)) => {
                    serve(wire);
                    is_quiet = false;
                }
                // The next look at the queue tells what it means.
                Ok(Err(_)) => is_quiet = false,
                Err(_) => is_quiet = true,
            }
        }
    }
}

/// Names those that are still in the queue when the drain is over, if it is known that there are any.
struct LeftBehind<'server> {
    server: &'server Server,
    since: Option<Instant>,
}

impl Drop for LeftBehind<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let what = "connections in the queue of the listener: no descriptor was left for them";
            self.server.lose(what.to_owned(), since.elapsed());
        }
    }
}

/// An error that is over when somebody gives back what he has.
fn is_shortage(error: &io::Error) -> bool {
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
