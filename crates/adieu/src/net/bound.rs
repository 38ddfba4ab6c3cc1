//! Listening sockets that the program has bound by itself, with tokio or the standard library.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use socket2::{Socket, Type};

use super::listen::Listener;
use crate::error::Error;

/// A socket that listens, as [`serve`](crate::serve()) and [`App::listener`](crate::App::listener) take it: a `TcpListener`
/// or `UnixListener` of tokio or of the standard library, or a [`Listener`].
pub struct BoundListener(pub(super) io::Result<Bound>);

pub(super) enum Bound {
    Socket(Socket),
    Ours(Box<Listener>),
}

impl BoundListener {
    /// The address, as far as it has one.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self.0.as_ref().ok()? {
            Bound::Socket(socket) => socket.local_addr().ok()?.as_socket(),
            Bound::Ours(listener) => listener.local_addr(),
        }
    }

    /// Whether clients can be accepted from it.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        let problem = match &self.0 {
            Err(error) => Some(format!("it cannot be taken from the runtime: {error}")),
            Ok(Bound::Socket(socket)) => problem_of(socket),
            Ok(Bound::Ours(_)) => None,
        };
        problem.map_or(Ok(()), |problem| {
            Err(Error::config(format!(
                "`{name}` cannot serve on the socket that it was given: {problem}"
            )))
        })
    }
}

/// Why nothing can be accepted from this socket.
fn problem_of(socket: &Socket) -> Option<String> {
    match socket.r#type() {
        Err(error) => return Some(format!("it is not a socket: {error}")),
        Ok(kind) if kind != Type::STREAM => {
            return Some(
                "it is not a stream socket: bind a TCP or Unix stream listener".to_owned(),
            );
        }
        Ok(_) => {}
    }
    if socket.peer_addr().is_ok() {
        return Some("it is a connection: give the listener that it was accepted from".to_owned());
    }
    #[cfg(unix)]
    if matches!(socket.is_listener(), Ok(false)) {
        return Some(
            "it is not listening: `TcpListener::bind` listens as well, a socket that is made by hand needs `listen()`"
                .to_owned(),
        );
    }
    None
}

impl From<Listener> for BoundListener {
    fn from(listener: Listener) -> Self {
        Self(Ok(Bound::Ours(Box::new(listener))))
    }
}

impl From<std::net::TcpListener> for BoundListener {
    fn from(listener: std::net::TcpListener) -> Self {
        Self(Ok(Bound::Socket(listener.into())))
    }
}

impl From<tokio::net::TcpListener> for BoundListener {
    fn from(listener: tokio::net::TcpListener) -> Self {
        Self(listener.into_std().map(|it| Bound::Socket(it.into())))
    }
}

#[cfg(unix)]
impl From<std::os::unix::net::UnixListener> for BoundListener {
    fn from(listener: std::os::unix::net::UnixListener) -> Self {
        Self(Ok(Bound::Socket(Socket::from(std::os::fd::OwnedFd::from(
            listener,
        )))))
    }
}

#[cfg(unix)]
impl From<tokio::net::UnixListener> for BoundListener {
    fn from(listener: tokio::net::UnixListener) -> Self {
        Self(
            listener
                .into_std()
                .map(|it| Bound::Socket(Socket::from(std::os::fd::OwnedFd::from(it)))),
        )
    }
}

impl fmt::Debug for BoundListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundListener")
            .field(&self.local_addr())
            .finish()
    }
}
