//! Taking a listener away without losing a connection.
//!
//! Closing a listening socket resets every connection in its queue. So the kernel is
//! made to refuse new connections first, while handshakes half done still arrive in the queue; then the queue is
//! drained until it is quiet, and only then is the socket closed. Where new connections cannot be refused first, the
//! queue is drained all the same.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

use super::acceptor::{Acceptor, NoReserve, is_passing, is_shortage};
use super::listen::Listening;
use super::listeners::SocketOwner;
use super::os::SHORTAGES;
use super::server::Server;
use super::socket::SharedSocket;

/// How a listener was taken away; stands in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseMethod {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(
            dead_code,
            reason = "only Linux can refuse new connections before the close"
        )
    )]
    Cloaked,
    Drained,
    Unlinked,
    /// Another process keeps it open, with its queue.
    LeftOpen(SocketOwner),
}

impl CloseMethod {
    /// For the report, with what told that no more connections would come.
    pub(super) fn note(self, end: BacklogEnd) -> String {
        match (self, end) {
            (Self::Cloaked, BacklogEnd::NoHandshakes) => {
                "new connections refused, accept queue drained, listener closed: no handshake was left"
            }
            (Self::Cloaked, BacklogEnd::HandshakesCut) => {
                "new connections refused, accept queue drained, listener closed: handshakes were left"
            }
            (Self::Cloaked, BacklogEnd::Quiet) => {
                "new connections refused, accept queue drained, listener closed after a quiet time"
            }
            (Self::Drained, _) => {
                "accept queue drained, listener closed (this system cannot refuse new connections first)"
            }
            (Self::Unlinked, _) => "socket file removed, accept queue drained, listener closed",
            (Self::LeftOpen(SocketOwner::NewProcess(pid)), _) => {
                return format!("listener handed over to process {pid}");
            }
            (Self::LeftOpen(SocketOwner::OldProcess), _) => {
                "listener left to the process that has it"
            }
            (Self::LeftOpen(_), _) => "listener left open, with its accept queue, to the parent process",
        }
        .to_owned()
    }
}

/// How long to wait for the word whose a listener is that was just being handed over.
const DECISION_WAIT: Duration = Duration::from_secs(1);

/// The queue counts as quiet after this long without a connection: longer than most round trips, because the
/// last step of a handshake may still be on its way.
const QUIET_TIME: Duration = Duration::from_millis(150);
/// Emptying ends after this long in any case, but for want of descriptors.
const MAX_DRAIN: Duration = Duration::from_secs(1);

static CAN_CLOAK: OnceLock<bool> = OnceLock::new();

/// Finds out, once, whether new connections can be refused here: on a socket of our own, on loopback.
pub(super) fn can_cloak() -> bool {
    *CAN_CLOAK.get_or_init(|| try_cloak().unwrap_or(false))
}

#[cfg(target_os = "linux")]
fn try_cloak() -> io::Result<bool> {
    use std::net::{Ipv4Addr, TcpListener, TcpStream as StdStream};
    use std::os::fd::AsFd;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    StdStream::connect_timeout(&address, Duration::from_millis(200))?;
    adieu_os::socket::cloak(listener.as_fd())?;
    let refused = StdStream::connect_timeout(&address, Duration::from_millis(200));
    Ok(refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(not(target_os = "linux"))]
fn try_cloak() -> io::Result<bool> {
    Ok(false)
}

impl Acceptor {
    /// Hands over all that are in the queue, and says how many; an error if a connection is queued and cannot be accepted.
    fn accept_all(
        &self,
        server: &Server,
        mut serve: impl FnMut(SharedSocket),
    ) -> io::Result<usize> {
        let mut count = 0;
        loop {
            if !server.has_descriptors() && self.has_queued() {
                return Err(io::Error::from_raw_os_error(SHORTAGES[0]));
            }
            match self.accept_now() {
                Ok(socket) => {
                    serve(socket);
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
    /// Completes when it is known whether another process goes on with it; a hand-off may be in progress. Cancel-safe.
    pub(super) async fn decided(&self) {
        let _ = tokio::time::timeout(DECISION_WAIT, self.registration.decided()).await;
    }

    /// Has the kernel refuse new connections. A listener that another process goes on with is left as it is.
    pub(super) fn cloak(&mut self) -> CloseMethod {
        match (self.registration.owner(), &self.acceptor) {
            (SocketOwner::ThisProcess, Acceptor::Unix(_)) => {
                self.registration.remove_file();
                CloseMethod::Unlinked
            }
            #[cfg(target_os = "linux")]
            (SocketOwner::ThisProcess, Acceptor::Tcp(listener)) => {
                use std::os::fd::AsFd;
                let cloaked = can_cloak() && adieu_os::socket::cloak(listener.as_fd()).is_ok();
                if cloaked {
                    CloseMethod::Cloaked
                } else {
                    CloseMethod::Drained
                }
            }
            #[cfg(not(target_os = "linux"))]
            (SocketOwner::ThisProcess, Acceptor::Tcp(_)) => CloseMethod::Drained,
            // The cloak would hide it from the other process's clients too, and the queue is served there.
            (owner, _) => CloseMethod::LeftOpen(owner),
        }
    }

    /// Hands every connection that is or still comes into the accept queue to `serve`, and closes the listener. Says
    /// what told that no more would come.
    ///
    /// The kernel is asked whether clients are in the middle of a handshake. Where it cannot be, or does not refuse new
    /// ones, the listener is closed after a time without a connection; not even that if there was no traffic lately.
    ///
    /// Dropped half-way, the listener closes at once, and the connections known to be in its queue are named.
    pub(super) async fn drain_backlog(
        self,
        method: CloseMethod,
        had_traffic: bool,
        server: &Server,
        mut serve: impl FnMut(SharedSocket),
    ) -> BacklogEnd {
        let (quiet, cap) = (
            server.clamp_to_drain(QUIET_TIME),
            server.clamp_to_drain(MAX_DRAIN),
        );
        let mut until = Instant::now() + cap;
        let mut is_quiet = !had_traffic;
        let mut handshakes = PendingHandshakes::of(method, &self.acceptor);
        let mut unserved = UnservedBacklog {
            server,
            since: None,
        };
        loop {
            // Before the look at the queue: a handshake that ends in between is in it.
            let none_left = handshakes.none_left();
            // Also after a quiet time: on a busy machine the timer may be the first to be heard.
            match self.acceptor.accept_all(server, &mut serve) {
                Ok(0) if none_left => return BacklogEnd::NoHandshakes,
                Ok(0) if is_quiet && !handshakes.are_known() => return handshakes.end(),
                Ok(_) => unserved.since = None,
                // A connection is queued, and there is no descriptor for it yet: that ends with the drain at the latest.
                Err(error) if is_shortage(&error) => {
                    unserved.since.get_or_insert_with(Instant::now);
                    is_quiet = false;
                    server.close_idle_now();
                    server.connections.wait_for_descriptor().await;
                    until = Instant::now() + cap;
                    continue;
                }
                // The listening socket is broken: there is nothing left to accept from it.
                Err(_) => return handshakes.end(),
            }
            if none_left {
                // They came from the queue: no other can be on its way.
                continue;
            }
            let now = Instant::now();
            if now >= until {
                return handshakes.end();
            }
            // `accept` is cancel-safe: a connection is either handed out or still in the queue.
            match tokio::time::timeout_at(until.min(now + quiet), self.accept(&NoReserve)).await {
                Ok(Ok(socket)) => {
                    serve(socket);
                    is_quiet = false;
                }
                // The next look at the queue tells what it means.
                Ok(Err(_)) => is_quiet = false,
                Err(_) => is_quiet = true,
            }
        }
    }
}

/// What told that no more connections would come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BacklogEnd {
    /// The kernel: no client was in the middle of a handshake.
    NoHandshakes,
    /// The kernel said that some were, until the time for them was over.
    HandshakesCut,
    /// A time without a new connection.
    Quiet,
}

/// What the kernel says of handshakes with a listener, as long as it can be asked.
struct PendingHandshakes {
    #[cfg(target_os = "linux")]
    kernel: Option<super::handshakes::Handshakes>,
}

impl PendingHandshakes {
    /// Only a listener that refuses new connections gets no new ones.
    #[cfg(target_os = "linux")]
    fn of(method: CloseMethod, acceptor: &Acceptor) -> Self {
        let kernel = match acceptor {
            Acceptor::Tcp(listener) if method == CloseMethod::Cloaked => {
                super::handshakes::Handshakes::of(listener).ok()
            }
            _ => None,
        };
        Self { kernel }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: CloseMethod, _: &Acceptor) -> Self {
        Self {}
    }

    /// Whether the kernel has none left.
    #[cfg(target_os = "linux")]
    fn none_left(&mut self) -> bool {
        match self.kernel.as_mut().map(|kernel| kernel.are_under_way()) {
            Some(Ok(under_way)) => !under_way,
            Some(Err(_)) => {
                self.kernel = None;
                false
            }
            None => false,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn none_left(&mut self) -> bool {
        false
    }

    #[cfg(target_os = "linux")]
    const fn are_known(&self) -> bool {
        self.kernel.is_some()
    }

    #[cfg(not(target_os = "linux"))]
    const fn are_known(&self) -> bool {
        false
    }

    /// The end of a backlog of which the kernel did not say that it is over.
    const fn end(&self) -> BacklogEnd {
        if self.are_known() {
            BacklogEnd::HandshakesCut
        } else {
            BacklogEnd::Quiet
        }
    }
}

/// Names those that are still in the queue when the drain is over, if it is known that there are any.
struct UnservedBacklog<'server> {
    server: &'server Server,
    since: Option<Instant>,
}

impl Drop for UnservedBacklog<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let what = "connections in the queue of the listener: no descriptor was left for them";
            self.server.record_lost(what.to_owned(), since.elapsed());
        }
    }
}
