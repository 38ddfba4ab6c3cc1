//! Listening sockets: inherited, or bound in `setup`, so that a port that is taken is an error there.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::panic::Location;
#[cfg(feature = "tls-no-provider")]
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::acceptor::{Acceptor, DescriptorReserve};
use super::bound::{self, BoundListener};
use super::close_listener;
use super::handshake::Handshake;
use super::inherited::{ClaimKind, ListenAddress, Origin, address_of};
use super::listeners::ListenerRegistration;
use super::os::{self, StartLock, UnixListener};
use super::port_owner;
use super::proxy_protocol::ProxyProtocol;
use super::socket::SharedSocket;
#[cfg(feature = "tls-no-provider")]
use super::tls_config::TlsConfig;
use crate::error::{Error, ErrorKind};
use crate::report::Notice;
use crate::runtime::shared::ServiceShared;

/// How many connections may wait to be accepted. A queue that overflows loses connections at the stop.
const BACKLOG: i32 = 4_096;

/// A socket about to be bound. Await it to bind it.
#[must_use = "a socket is bound when it is awaited"]
pub struct Listen {
    core: Arc<ServiceShared>,
    name: Cow<'static, str>,
    address: String,
    #[cfg(feature = "tls-no-provider")]
    tls: Option<TlsConfig>,
    kind: ClaimKind,
    place: &'static Location<'static>,
}

impl Listen {
    pub(crate) const fn new(
        core: Arc<ServiceShared>,
        name: Cow<'static, str>,
        address: String,
        place: &'static Location<'static>,
    ) -> Self {
        Self {
            core,
            name,
            address,
            #[cfg(feature = "tls-no-provider")]
            tls: None,
            kind: ClaimKind::Service,
            place,
        }
    }

    /// Not for the clients of the service: a listener that came without a name is for a server, unless it is
    /// exactly where this one was asked for.
    #[cfg(feature = "admin")]
    pub(crate) const fn for_admin(mut self) -> Self {
        self.kind = ClaimKind::Admin;
        self
    }

    /// Speaks TLS, with the certificate chain and the key in these PEM files. HTTP/2 is offered with the feature
    /// `http2`.
    #[cfg(feature = "tls-no-provider")]
    pub fn tls(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls_config(TlsConfig::files(certificate, key))
    }

    /// Speaks TLS with this configuration: a [`rustls::ServerConfig`](super::rustls::ServerConfig), or a [`TlsConfig`] that
    /// comes anew at every reload.
    #[cfg(feature = "tls-no-provider")]
    pub fn tls_config(mut self, config: impl Into<TlsConfig>) -> Self {
        self.tls = Some(config.into());
        self
    }

    /// Dropping it while a name is resolved leaves nothing behind.
    async fn bind(self) -> Result<Listener, Error> {
        let name: Arc<str> = Arc::from(&*self.name);
        let failed = async |cause: io::Error, at: Option<ListenAddress>| {
            refused(&name, self.address.clone(), at, cause).await
        };
        #[cfg(feature = "tls-no-provider")]
        let tls = match self.tls.clone() {
            Some(config) => Some(super::Tls::load(&name, config)?),
            None => None,
        };
        let mut starting = None;
        let (bound, registration) = match self.inherited()? {
            Some(inherited) => inherited,
            None => {
                let (bound, file) = match self.address.strip_prefix("unix:") {
                    // The kernel would make one up.
                    Some("") => return Err(failed(io::ErrorKind::InvalidInput.into(), None).await),
                    Some(path) => match os::bind_unix(path.as_ref()) {
                        Ok((socket, file, lock)) => {
                            starting = Some(lock);
                            (BoundSocket::Unix(socket), Some(file))
                        }
                        Err(cause) => {
                            return Err(failed(cause, Some(ListenAddress::Unix(path.into()))).await);
                        }
                    },
                    None => match bind_tcp(&self.address).await {
                        Ok(bound) => (bound, None),
                        Err((cause, at)) => {
                            return Err(failed(cause, at.map(ListenAddress::Tcp)).await);
                        }
                    },
                };
                let name = self.name.to_string();
                (
                    bound,
                    ListenerRegistration::new(Arc::clone(&self.core), name, Origin::Bound, file),
                )
            }
        };
        if self.kind == ClaimKind::Service {
            self.core.listeners().descriptors.raise_limit();
        }
        close_listener::can_cloak();
        Ok(Listener {
            name: self.name,
            registration,
            bound,
            starting,
            handshake: Handshake {
                proxy: None,
                #[cfg(feature = "tls-no-provider")]
                tls,
            },
            place: self.place,
            on_listening: None,
        })
    }

    /// The listener of this name, if one came with the process.
    fn inherited(&self) -> Result<Option<(BoundSocket, ListenerRegistration)>, Error> {
        let inheritance = &self.core.listeners().inheritance;
        let Some(claimed) = inheritance.claim(&self.name, &self.address, self.kind)? else {
            return Ok(None);
        };
        let (core, name) = (Arc::clone(&self.core), self.name.to_string());
        let registration = ListenerRegistration::new(core, name, claimed.origin, claimed.file);
        self.core.note(Notice::Inherited {
            part: Arc::from(&*self.name),
            from: registration.provenance().unwrap_or_default(),
            elsewhere: claimed.elsewhere.map(|found| (found, self.address.clone())),
        });
        let is_unix = claimed
            .socket
            .local_addr()
            .is_ok_and(|address| address.is_unix());
        let bound = if is_unix {
            BoundSocket::Unix(claimed.socket)
        } else {
            BoundSocket::Tcp(claimed.socket)
        };
        Ok(Some((bound, registration)))
    }
}

impl IntoFuture for Listen {
    type Output = Result<Listener, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.bind())
    }
}

/// A socket that is bound and does not listen yet: until the service runs, connections are refused and not
/// left waiting for a start that may fail.
#[must_use = "give it to `app.http` or `app.tcp`"]
pub struct Listener {
    pub(crate) name: Cow<'static, str>,
    // Before the socket: a file whose socket is closed looks stale, and another service may replace it.
    registration: ListenerRegistration,
    bound: BoundSocket,
    /// Until the socket listens other processes cannot tell it from one that was left behind. After the file is removed, if it never
    /// comes to that.
    starting: Option<StartLock>,
    pub(crate) handshake: Handshake,
    pub(crate) place: &'static Location<'static>,
    on_listening: Option<OnListening>,
}

pub(crate) type OnListening = Box<dyn FnOnce(&str) + Send>;

enum BoundSocket {
    Tcp(Socket),
    Unix(Socket),
}

/// A socket that listens.
pub(crate) struct Listening {
    // Before the socket, as above.
    pub(crate) registration: ListenerRegistration,
    pub(super) acceptor: Acceptor,
}

impl Listening {
    /// The next connection; see [`Acceptor::accept`]. Cancel-safe.
    pub(crate) async fn accept(
        &self,
        reserve: &impl DescriptorReserve,
    ) -> io::Result<SharedSocket> {
        self.acceptor.accept(reserve).await
    }
}

impl Listener {
    /// One that the program has bound by itself. Nothing is known of who else holds it, so it is closed for good at the
    /// end; its file, if it is a Unix socket, is the program's.
    pub(crate) fn adopt(
        core: &Arc<ServiceShared>,
        name: Cow<'static, str>,
        bound: BoundListener,
        place: &'static Location<'static>,
    ) -> Result<Self, Error> {
        bound.check(&name)?;
        let socket = match bound.0 {
            Ok(bound::Bound::Ours(listener)) => return Ok(*listener),
            Ok(bound::Bound::Socket(socket)) => Ok(socket),
            Err(error) => Err(error),
        };
        let socket = socket.and_then(|socket| {
            // The standard library's are blocking.
            socket.set_nonblocking(true)?;
            let is_unix = socket.local_addr()?.is_unix();
            Ok(if is_unix {
                BoundSocket::Unix(socket)
            } else {
                BoundSocket::Tcp(socket)
            })
        });
        let what = "a listener could not be taken over";
        let bound = socket.map_err(|cause| Error::new(ErrorKind::System { what, cause }))?;
        core.listeners().descriptors.raise_limit();
        close_listener::can_cloak();
        Ok(Self {
            registration: ListenerRegistration::new(
                Arc::clone(core),
                name.to_string(),
                Origin::Bound,
                None,
            ),
            name,
            bound,
            starting: None,
            handshake: Handshake::default(),
            place,
            on_listening: None,
        })
    }

    /// Speaks TLS with this configuration.
    #[cfg(all(feature = "http", feature = "tls-no-provider"))]
    pub(crate) fn speak_tls(&mut self, config: TlsConfig) -> Result<(), Error> {
        let name = Arc::from(&*self.name);
        self.handshake.tls = Some(super::Tls::load(&name, config)?);
        Ok(())
    }

    /// Every connection begins with a header that has the client's address, from a proxy that this trusts: it is the one
    /// that [`Peer`](crate::http::Peer), axum's `ConnectInfo` and [`Conn::peer_addr`](super::Conn::peer_addr) give. The
    /// header comes before TLS, and has the time of the handshake.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// use adieu::net::ProxyProtocol;
    ///
    /// let api = app.listen("api", "127.0.0.1:0").await?;
    /// let api = api.proxy_protocol(ProxyProtocol::trusting(["10.0.0.0/8"])?);
    /// # app.tcp(api, |_conn| async {});
    /// # Ok(()) }
    /// ```
    pub fn proxy_protocol(mut self, proxies: ProxyProtocol) -> Self {
        self.handshake.proxy = Some(Arc::new(proxies));
        self
    }

    /// The address, with the port that the system has chosen if 0 was asked for. `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.bound {
            BoundSocket::Tcp(socket) => socket.local_addr().ok()?.as_socket(),
            BoundSocket::Unix(_) => None,
        }
    }

    /// Calls this with the address, as in `127.0.0.1:8080` or `unix:/run/x.sock`, from the moment on at which
    /// a client can connect. That is after `setup`: a line printed there would come too early.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let api = app.listen("api", "127.0.0.1:0").await?;
    /// let api = api.on_listening(|address| tracing::info!("listening on {address}"));
    /// # app.tcp(api, |_conn| async {});
    /// # Ok(()) }
    /// ```
    pub fn on_listening(mut self, tell: impl FnOnce(&str) + Send + 'static) -> Self {
        self.on_listening = Some(Box::new(tell));
        self
    }

    fn at(&self) -> Option<ListenAddress> {
        let (BoundSocket::Tcp(socket) | BoundSocket::Unix(socket)) = &self.bound;
        address_of(socket)
    }

    /// Where it came from, if we have not bound it.
    pub(crate) fn provenance(&self) -> Option<String> {
        self.registration.provenance()
    }

    /// Begins to listen. Another process that has bound the address as well, and listens first, has it: `bind` has not settled that.
    ///
    /// Dropped half-way, it has failed already.
    pub(crate) async fn open(self) -> Result<Listening, Error> {
        let (name, place) = (self.name.clone(), self.at());
        let address = place
            .as_ref()
            .map_or_else(String::new, ListenAddress::to_string);
        match self.listen(&address) {
            Ok(listening) => Ok(listening),
            Err(cause) => Err(refused(&name, address, place, cause).await),
        }
    }

    fn listen(mut self, address: &str) -> io::Result<Listening> {
        let (BoundSocket::Tcp(socket) | BoundSocket::Unix(socket)) = &self.bound;
        socket.listen(BACKLOG)?;
        drop(self.starting.take());
        self.registration.list(socket.try_clone().map(Into::into));
        let acceptor = match self.bound {
            BoundSocket::Tcp(socket) => Acceptor::Tcp(TcpListener::from_std(socket.into())?),
            BoundSocket::Unix(socket) => Acceptor::Unix(UnixListener::from_std(socket.into())?),
        };
        if let Some(tell) = self.on_listening {
            tell(address);
        }
        Ok(Listening {
            registration: self.registration,
            acceptor,
        })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("name", &self.name)
            .field("address", &self.local_addr())
            .finish()
    }
}

/// The error of a listener that could not be had: with the process that holds the address, if one does.
async fn refused(
    name: &str,
    address: String,
    at: Option<ListenAddress>,
    cause: io::Error,
) -> Error {
    let is_taken = cause.kind() == io::ErrorKind::AddrInUse;
    let holder = match at.filter(|_| is_taken) {
        // A look at every process there is, which takes its time on a large machine.
        Some(at) => tokio::task::spawn_blocking(move || port_owner::of(&at)).await,
        None => Ok(None),
    };
    Error::new(ErrorKind::Listen {
        name: name.into(),
        advice: advice(&address, cause.kind()),
        address,
        holder: holder.ok().flatten(),
        cause,
    })
}

/// What to do about an address that cannot be listened on.
fn advice(address: &str, problem: io::ErrorKind) -> Option<Cow<'static, str>> {
    if let Some(port) = port_alone(address) {
        let advice = format!("write 0.0.0.0:{port} for all addresses, or 127.0.0.1:{port}");
        return Some(advice.into());
    }
    let is_file = address.starts_with("unix:");
    let advice = match problem {
        io::ErrorKind::InvalidInput if is_file => {
            "the path of a socket has 1 to 107 bytes: choose a shorter one"
        }
        io::ErrorKind::InvalidInput => {
            "an address is HOST:PORT, as in 127.0.0.1:8080, or unix:PATH"
        }
        io::ErrorKind::AddrInUse => {
            "the address is already in use: stop the other process, or choose another address"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address: 0.0.0.0 is all it has"
        }
        io::ErrorKind::NotFound if is_file => "make its directory first",
        io::ErrorKind::NotFound => {
            "there is no such host: an address is HOST:PORT, as in 127.0.0.1:8080, or unix:PATH"
        }
        io::ErrorKind::PermissionDenied if is_file => "its directory is not ours to write in",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE: choose one above"
        }
        _ => return None,
    };
    Some(advice.into())
}

/// The port of an address that has no host, as in `:8080`. Elsewhere that means all addresses, or is a slip for one: to
/// guess would open to the world what was meant for this machine.
fn port_alone(address: &str) -> Option<u16> {
    address.strip_prefix(':')?.parse().ok()
}

/// An error comes with the address that it is about, if the name has one.
async fn bind_tcp(address: &str) -> Result<BoundSocket, (io::Error, Option<SocketAddr>)> {
    if port_alone(address).is_some() {
        let nobody = io::Error::new(io::ErrorKind::InvalidInput, "the address has no host");
        return Err((nobody, None));
    }
    // The system's own error says neither kind nor what an address looks like.
    let addresses = tokio::net::lookup_host(address).await.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::NotFound,
        };
        (io::Error::new(kind, error), None)
    });
    let nothing = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    let mut last = (nothing, None);
    for address in addresses? {
        match bind_one(address) {
            Ok(socket) => return Ok(BoundSocket::Tcp(socket)),
            Err(error) => last = (error, Some(address)),
        }
    }
    Err(last)
}

fn bind_one(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    os::allow_lingering(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
