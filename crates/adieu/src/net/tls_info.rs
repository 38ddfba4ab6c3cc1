//! What a TLS handshake has settled, as request handlers see it.

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ProtocolVersion, ServerConnection};
use tokio_rustls::server::TlsStream;

use super::socket::SharedSocket;

/// What the TLS handshake of a connection has settled. Part of [`Peer`](crate::http::Peer).
#[derive(Debug)]
#[non_exhaustive]
pub struct TlsInfo {
    server_name: Option<String>,
    alpn_protocol: Option<Vec<u8>>,
    version: Option<ProtocolVersion>,
    certificates: Vec<CertificateDer<'static>>,
    #[cfg(all(feature = "tls", feature = "tonic"))]
    pub(crate) grpc: GrpcTls,
}

/// What tonic's own server puts into the requests of a TLS connection.
#[cfg(all(feature = "tls", feature = "tonic"))]
pub(crate) type GrpcTls =
    tonic::transport::server::TlsConnectInfo<tonic::transport::server::TcpConnectInfo>;

impl TlsInfo {
    pub(super) fn of(stream: &TlsStream<SharedSocket>) -> Self {
        let connection: &ServerConnection = stream.get_ref().1;
        Self {
            server_name: connection.server_name().map(str::to_owned),
            alpn_protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
            version: connection.protocol_version(),
            certificates: connection
                .peer_certificates()
                .map(<[_]>::to_vec)
                .unwrap_or_default(),
            #[cfg(all(feature = "tls", feature = "tonic"))]
            grpc: tonic::transport::server::Connected::connect_info(stream),
        }
    }

    /// The host name that the client has asked for (SNI), if it has.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The protocol that client and server have agreed on (ALPN), as in `h2`.
    #[must_use]
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.alpn_protocol.as_deref()
    }

    /// The version of TLS, as in `TLSv1.3`.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        self.version.and_then(|version| version.as_str())
    }

    /// The client's certificates in DER, its own first; empty if it was not asked for any.
    pub fn certificates(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.certificates.iter().map(AsRef::as_ref)
    }
}

#[cfg(all(feature = "tls", feature = "tonic"))]
impl tonic::transport::server::Connected for SharedSocket {
    type ConnectInfo = tonic::transport::server::TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        Self::ConnectInfo {
            local_addr: self.local_addr(),
            remote_addr: self.peer_addr(),
        }
    }
}
