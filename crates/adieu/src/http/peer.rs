//! Who is at the other end of a connection, for request handlers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Extensions;

use super::conn_state::ConnShared;
use crate::runtime::stop::Stop;

/// The client of a request: its address, the address it has connected to, and what the TLS handshake has settled.
///
/// Every request that an adieu server takes in carries it. With the feature `axum` it is an extractor, and handlers that
/// take axum's `ConnectInfo<SocketAddr>` find that as well; with the feature `tonic`, `Request::remote_addr()` and its
/// kin answer as under tonic's own server.
///
/// ```
/// use adieu::http::Peer;
///
/// async fn whoami(peer: Peer) -> String {
///     peer.addr().map_or_else(|| "a local process".to_owned(), |addr| addr.to_string())
/// }
/// ```
///
/// A test that calls a router without a server puts one in by itself:
///
/// ```
/// let peer = adieu::http::Peer::new("192.0.2.7:4711".parse()?);
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(peer);
/// assert_eq!(adieu::http::Peer::of(request.extensions()).and_then(|peer| peer.addr()), "192.0.2.7:4711".parse().ok());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone)]
pub struct Peer(PeerSource);

#[derive(Clone)]
enum PeerSource {
    /// By the connection and not by the service: its count of owners is the one place in memory that the threads of a
    /// busy server would all write to.
    Connection(Arc<ConnShared>),
    Made(SocketAddr),
}

impl Peer {
    /// A client at this address, for tests of handlers.
    #[must_use]
    pub const fn new(addr: SocketAddr) -> Self {
        Self(PeerSource::Made(addr))
    }

    pub(super) const fn of_connection(connection: Arc<ConnShared>) -> Self {
        Self(PeerSource::Connection(connection))
    }

    /// The peer among the extensions of a request, for services that are not axum's; `None` if no adieu server has taken
    /// the request in.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Self>().cloned()
    }

    /// The client's address; `None` for a client of a Unix socket.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        match &self.0 {
            PeerSource::Connection(connection) => connection.socket.peer_addr(),
            PeerSource::Made(addr) => Some(*addr),
        }
    }

    /// The address of the proxy whose [PROXY header](crate::net::Listener::proxy_protocol) has the client's address; `None` for
    /// a client that has connected by itself.
    #[must_use]
    pub fn proxy_addr(&self) -> Option<SocketAddr> {
        match &self.0 {
            PeerSource::Connection(connection) => connection.socket.proxy_addr(),
            PeerSource::Made(_) => None,
        }
    }

    /// The address that the client has connected to; `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.0 {
            PeerSource::Connection(connection) => connection.socket.local_addr(),
            PeerSource::Made(_) => None,
        }
    }

    /// What the TLS handshake has settled; `None` for a connection without TLS.
    #[cfg(feature = "tls-no-provider")]
    #[must_use]
    pub fn tls(&self) -> Option<&TlsInfo> {
        match &self.0 {
            PeerSource::Connection(connection) => connection.socket.tls(),
            PeerSource::Made(_) => None,
        }
    }

    #[cfg(feature = "axum")]
    pub(super) fn connection(self) -> Option<Arc<ConnShared>> {
        match self.0 {
            PeerSource::Connection(connection) => Some(connection),
            PeerSource::Made(_) => None,
        }
    }

    /// The stop of the service that has taken the request in.
    pub(super) fn stop(&self) -> Option<Stop> {
        match &self.0 {
            PeerSource::Connection(connection) => {
                Some(Stop::new(Arc::clone(&connection.server.core)))
            }
            PeerSource::Made(_) => None,
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("addr", &self.addr())
            .field("local_addr", &self.local_addr())
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "tls-no-provider")]
use crate::net::TlsInfo;

#[cfg(feature = "axum")]
mod extract {
    use axum::extract::connect_info::Connected;
    use axum::extract::{FromRequestParts, OptionalFromRequestParts};
    use http::StatusCode;
    use http::request::Parts;

    use super::{Peer, SocketAddr};

    impl<S: Sync> FromRequestParts<S> for Peer {
        type Rejection = (StatusCode, &'static str);

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
            let missing = (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the request carries no adieu::http::Peer: no adieu server has taken it in; a test can add one with `Peer::new`",
            );
            Self::of(&parts.extensions).ok_or(missing)
        }
    }

    impl<S: Sync> OptionalFromRequestParts<S> for Peer {
        type Rejection = std::convert::Infallible;

        async fn from_request_parts(
            parts: &mut Parts,
            _: &S,
        ) -> Result<Option<Self>, Self::Rejection> {
            Ok(Self::of(&parts.extensions))
        }
    }

    /// For `into_make_service_with_connect_info::<SocketAddr>()`. A client of a Unix socket has no address: it is
    /// `0.0.0.0:0`, which no list of allowed clients has.
    impl Connected<Peer> for SocketAddr {
        fn connect_info(peer: Peer) -> Self {
            peer.addr()
                .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
        }
    }

    impl Connected<Self> for Peer {
        fn connect_info(peer: Self) -> Self {
            peer
        }
    }
}

/// What tonic's own server would put into a request.
#[cfg(feature = "tonic")]
pub(super) struct GrpcPeer {
    tcp: tonic::transport::server::TcpConnectInfo,
    #[cfg(feature = "tls")]
    tls: Option<crate::net::GrpcTls>,
}

#[cfg(feature = "tonic")]
impl GrpcPeer {
    /// `None` for a client of a Unix socket.
    pub(super) fn of(peer: &Peer) -> Option<Self> {
        Some(Self {
            tcp: tonic::transport::server::TcpConnectInfo {
                remote_addr: Some(peer.addr()?),
                local_addr: peer.local_addr(),
            },
            #[cfg(feature = "tls")]
            tls: peer.tls().map(|tls| tls.grpc.clone()),
        })
    }

    pub(super) fn insert_into(&self, request: &mut Extensions) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            request.insert(tls.clone());
            return;
        }
        request.insert(self.tcp.clone());
    }
}
