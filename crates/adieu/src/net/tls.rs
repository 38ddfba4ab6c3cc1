//! TLS for a listener: certificate and key from PEM files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use super::socket::SharedSocket;
use super::stream::Stream;
use crate::component::BoxFuture;
use crate::error::{BoxError, Error, ErrorKind};
use crate::reload::{Source, StagedValue};
use crate::runtime::shared::ServiceShared;

/// The certificate in force, shared by all connections to come. A reload replaces it; those that are open have theirs.
#[derive(Clone)]
pub(crate) struct Tls(Arc<Certificate>);

struct Certificate {
    listener: Arc<str>,
    /// In a reload.
    name: Arc<str>,
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<TlsAcceptor>,
}

impl Tls {
    pub(super) fn load(name: &Arc<str>, certificate: &Path, key: &Path) -> Result<Self, Error> {
        let current = Mutex::new(read(name, certificate, key)?);
        Ok(Self(Arc::new(Certificate {
            listener: Arc::clone(name),
            name: format!("{name} tls").into(),
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            current,
        })))
    }

    /// From here on the files are read again with everything else.
    pub(crate) fn reload_with(&self, core: &ServiceShared) -> Result<(), Error> {
        let source: Arc<dyn Source> = Arc::<Certificate>::clone(&self.0);
        core.reloads().add(source)
    }

    /// The handshake. Dropped half-way, the connection closes.
    pub(crate) async fn accept(&self, socket: SharedSocket) -> io::Result<Stream> {
        let acceptor = self.0.current().clone();
        Ok(Stream::Tls(Box::new(acceptor.accept(socket).await?)))
    }
}

impl Certificate {
    fn current(&self) -> MutexGuard<'_, TlsAcceptor> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Certificate {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn load(self: Arc<Self>) -> BoxFuture<Result<Box<dyn StagedValue>, BoxError>> {
        Box::pin(async move {
            let ours = Arc::clone(&self);
            let reading = move || read(&ours.listener, &ours.certificate, &ours.key);
            let new = tokio::task::spawn_blocking(reading).await??;
            let proposal: Box<dyn StagedValue> = Box::new(NewCertificate { of: self, new });
            Ok(proposal)
        })
    }
}

struct NewCertificate {
    of: Arc<Certificate>,
    new: TlsAcceptor,
}

impl StagedValue for NewCertificate {
    fn commit(self: Box<Self>) {
        *self.of.current() = self.new;
    }
}

fn read(name: &Arc<str>, certificate: &Path, key: &Path) -> Result<TlsAcceptor, Error> {
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
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        pem::Error::NoItemsFound => failed(
            key,
            "it holds no private key that can be read: one in PEM without a password is needed"
                .into(),
        ),
        error => failed(key, error.into()),
    })?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificate, error.into()))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let of = certificate.display();
                failed(
                    key,
                    format!("it is not the key of the certificate in {of}").into(),
                )
            }
            error => failed(key, error.into()),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(feature = "http")]
impl Stream {
    /// What the handshake has settled; `None` if there was none.
    pub(crate) fn tls_info(&self) -> Option<super::TlsInfo> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(super::TlsInfo::of(tls)),
        }
    }
}
