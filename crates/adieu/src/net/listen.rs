//! Listening sockets: bound in `setup`, so that a port that is taken is an error there.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::holder;
use super::quit;
use crate::error::{Error, ErrorKind};

/// How many connections may wait to be accepted. A queue that overflows loses connections at the stop.
const BACKLOG: i32 = 4_096;

/// A socket about to be bound. Await it to bind it.
#[must_use = "a socket is bound when it is awaited"]
pub struct Listen {
    name: Cow<'static, str>,
    address: String,
    #[cfg(feature = "tls")]
    tls: Option<(PathBuf, PathBuf)>,
    place: &'static Location<'static>,
}

impl Listen {
    pub(crate) const fn new(
        name: Cow<'static, str>,
        address: String,
        place: &'static Location<'static>,
    ) -> Self {
        Self {
            name,
            address,
            #[cfg(feature = "tls")]
            tls: None,
            place,
        }
    }

    /// Speaks TLS, with the certificate chain and the key in these PEM files. HTTP/2 is offered.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls = Some((certificate.into(), key.into()));
        self
    }

    /// Dropping it while a name is resolved leaves nothing behind.
    async fn bind(self) -> Result<Listener, Error> {
        let name: Arc<str> = Arc::from(&*self.name);
        let failed = |cause: io::Error| {
            let taken = cause.kind() == io::ErrorKind::AddrInUse;
            let holder = taken.then(|| holder::of(&self.address)).flatten();
            let (name, address) = (Arc::clone(&name), self.address.clone());
            Error::new(ErrorKind::Listen {
                name,
                address,
                holder,
                cause,
            })
        };
        #[cfg(feature = "tls")]
        let tls = match &self.tls {
            Some((certificate, key)) => Some(super::Tls::load(&name, certificate, key)?),
            None => None,
        };
        let bound = match self.address.strip_prefix("unix:") {
            // adieu: ignore(ADR102) once, in set-up, on a local file
            Some(path) => bind_unix(path.into()).map_err(failed)?,
            None => bind_tcp(&self.address).await.map_err(failed)?,
        };
        quit::probe();
        Ok(Listener {
            name: self.name,
            bound,
            #[cfg(feature = "tls")]
            tls,
            place: self.place,
            on_listening: None,
        })
    }
}

impl IntoFuture for Listen {
    type Output = Result<Listener, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.bind())
    }
}

/// A socket that is bound and does not listen yet: until the service runs, connections are refused and not
/// left waiting for a start that may fail.
#[must_use = "give it to `app.http` or `app.tcp`"]
pub struct Listener {
    pub(crate) name: Cow<'static, str>,
    bound: Bound,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::Tls>,
    pub(crate) place: &'static Location<'static>,
    on_listening: Option<OnListening>,
}

type OnListening = Box<dyn FnOnce(&str) + Send>;

enum Bound {
    Tcp(Socket),
    Unix(Socket, SocketFile),
}

/// A socket that listens.
pub(crate) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket: removed once, with the listener or before it. Never twice, because by then
/// another service may have put its own there.
pub(crate) struct SocketFile(Option<PathBuf>);

impl SocketFile {
    pub(super) fn remove(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Listener {
    /// The address, with the port that the system has chosen if 0 was asked for. `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.bound {
            Bound::Tcp(socket) => socket.local_addr().ok()?.as_socket(),
            Bound::Unix(..) => None,
        }
    }

    /// Calls this with the address, as in `127.0.0.1:8080` or `unix:/run/x.sock`, from the moment on at which
    /// a client can connect. That is after `setup`: a line printed there would come too early.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let api = app.listen("api", "127.0.0.1:0").await?;
    /// let api = api.on_listening(|address| println!("listening on {address}"));
    /// # app.tcp(api, |_conn| async {});
    /// # Ok(()) }
    /// ```
    pub fn on_listening(mut self, tell: impl FnOnce(&str) + Send + 'static) -> Self {
        self.on_listening = Some(Box::new(tell));
        self
    }

    fn address(&self) -> String {
        match &self.bound {
            Bound::Tcp(_) => self
                .local_addr()
                .map_or_else(String::new, |address| address.to_string()),
            Bound::Unix(_, SocketFile(path)) => {
                format!(
                    "unix:{}",
                    path.as_deref().unwrap_or(Path::new("")).display()
                )
            }
        }
    }

    /// Begins to listen.
    pub(crate) fn open(mut self) -> io::Result<Listening> {
        let tell = self.on_listening.take().map(|tell| (tell, self.address()));
        let listening = match self.bound {
            Bound::Tcp(socket) => {
                socket.listen(BACKLOG)?;
                Listening::Tcp(TcpListener::from_std(socket.into())?)
            }
            Bound::Unix(socket, path) => {
                socket.listen(BACKLOG)?;
                Listening::Unix(UnixListener::from_std(socket.into())?, path)
            }
        };
        if let Some((tell, address)) = tell {
            tell(&address);
        }
        Ok(listening)
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

async fn bind_tcp(address: &str) -> io::Result<Bound> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in tokio::net::lookup_host(address).await? {
        match bind_one(address) {
            Ok(socket) => return Ok(Bound::Tcp(socket)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_one(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // The port of a service that has just ended is free, even if connections of it linger in the kernel.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket file that nobody answers on is left over from a service that was killed, and is replaced.
fn bind_unix(path: PathBuf) -> io::Result<Bound> {
    if path.exists() {
        match std::os::unix::net::UnixStream::connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(&path)?
            }
            _ => return Err(io::Error::from(io::ErrorKind::AddrInUse)),
        }
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(&path)?)?;
    Ok(Bound::Unix(socket, SocketFile(Some(path))))
}
