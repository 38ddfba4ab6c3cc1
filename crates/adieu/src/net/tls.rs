//! TLS for a listener: certificate and key from PEM files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::stream::Stream;
use super::wire::Wire;
use crate::error::{BoxError, Error, ErrorKind};

#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    pub(super) fn load(name: &Arc<str>, certificate: &Path, key: &Path) -> Result<Self, Error> {
        let failed = |file: &Path, cause: BoxError| {
            Error::new(ErrorKind::Tls {
                name: Arc::clone(name),
                file: file.to_owned(),
                cause,
            })
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| failed(certificate, error.into()))?;
        if chain.is_empty() {
            return Err(failed(certificate, "it holds no certificate".into()));
        }
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.into()))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(certificate, error.into()))?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| failed(key, error.into()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// The handshake. Dropped half-way, the connection closes.
    pub(crate) async fn accept(&self, wire: Wire) -> io::Result<Stream> {
        Ok(Stream::Tls(Box::new(self.0.accept(wire).await?)))
    }
}

#[cfg(feature = "http")]
impl Stream {
    /// Whether the handshake has agreed on HTTP/2; `None` if it said nothing, or was none.
    pub(crate) fn agreed_on_http2(&self) -> Option<bool> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls
                .get_ref()
                .1
                .alpn_protocol()
                .map(|protocol| protocol == b"h2"),
        }
    }
}
