//! Where the TLS configuration of a listener comes from, and how it comes anew.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::error::{BoxError, Error, ErrorKind};

/// The TLS configuration of a listener: any [`rustls::ServerConfig`](tokio_rustls::rustls::ServerConfig), with client
/// certificates (mTLS), a certificate for each host name (SNI), protocols (ALPN) and session settings as the program sets
/// them. Given to [`Listen::tls_config`](crate::net::Listen::tls_config) or to `Serve::tls_config`.
///
/// [`adieu::net::rustls`](crate::net::rustls) is the crate, in the version that fits. HTTP/2 is offered to clients if
/// `alpn_protocols` has `h2`, followed by `http/1.1`. The client's certificates are in
/// [`Peer::tls`](crate::http::Peer::tls).
///
/// ```
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// use adieu::net::TlsConfig;
/// use adieu::net::rustls::ServerConfig;
///
/// fn config() -> adieu::Result<ServerConfig> {
///     # let (chain, key) = (Vec::new(), adieu::net::rustls::pki_types::PrivatePkcs8KeyDer::from(Vec::new()).into());
///     // let (chain, key) = …
///     let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
///     config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
///     Ok(config)
/// }
///
/// // Called now, and again at every reload.
/// let api = app.listen("api", "127.0.0.1:0").tls_config(TlsConfig::reloaded(config)).await?;
/// # app.tcp(api, |_conn| async {});
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct TlsConfig(pub(super) TlsSource);

#[derive(Clone)]
pub(super) enum TlsSource {
    /// PEM files.
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    Fixed(Arc<ServerConfig>),
    Closure(LoadConfig),
}

type LoadConfig = Arc<dyn Fn() -> Result<Arc<ServerConfig>, BoxError> + Send + Sync>;

impl TlsConfig {
    /// Calls this at the start and at every [reload](crate::reload), for connections to come; open ones keep theirs. An error
    /// at the start is the listener's, and at a reload the old configuration stays.
    ///
    /// It may read files: a reload calls it on a thread for blocking work.
    pub fn reloaded<C, E>(load: impl Fn() -> Result<C, E> + Send + Sync + 'static) -> Self
    where
        C: Into<Arc<ServerConfig>>,
        E: Into<BoxError>,
    {
        Self(TlsSource::Closure(Arc::new(move || {
            load().map(Into::into).map_err(Into::into)
        })))
    }

    /// The certificate chain and the key in these PEM files, read anew at every reload. The cryptography is that of the provider that
    /// the program has installed, as aws-lc-rs, or else ring with the feature `tls`. HTTP/2 is offered with the feature
    /// `http2`.
    #[must_use]
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self(TlsSource::Files {
            certificate: certificate.into(),
            key: key.into(),
        })
    }
}

impl From<ServerConfig> for TlsConfig {
    fn from(config: ServerConfig) -> Self {
        Self(TlsSource::Fixed(Arc::new(config)))
    }
}

impl From<Arc<ServerConfig>> for TlsConfig {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self(TlsSource::Fixed(config))
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        match &self.0 {
            TlsSource::Files { certificate, key } => f
                .debug_struct("TlsConfig")
                .field("certificate", certificate)
                .field("key", key)
                .finish(),
            TlsSource::Fixed(_) => f.write_str("TlsConfig(ServerConfig)"),
            TlsSource::Closure(_) => f.write_str("TlsConfig(reloaded)"),
        }
    }
}

impl TlsSource {
    /// Whether it can be another one the next time.
    pub(super) const fn changes(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// What it is now, for the listener of this name. It may read files.
    pub(super) fn load(&self, name: &Arc<str>) -> Result<Arc<ServerConfig>, Error> {
        match self {
            Self::Files { certificate, key } => read_files(name, certificate, key),
            Self::Fixed(config) => Ok(Arc::clone(config)),
            Self::Closure(load) => load().map_err(|cause| {
                let name = Arc::clone(name);
                Error::new(ErrorKind::TlsConfig { name, cause })
            }),
        }
    }
}

/// The provider that the program has installed for the process, or else ring, if it is built in.
fn provider() -> Option<Arc<CryptoProvider>> {
    let installed = CryptoProvider::get_default().map(Arc::clone);
    #[cfg(feature = "tls")]
    let installed = installed.or_else(|| Some(Arc::new(rustls::crypto::ring::default_provider())));
    installed
}

fn read_files(name: &Arc<str>, certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
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
    let provider = provider().ok_or_else(|| {
        Error::new(ErrorKind::TlsConfig {
            name: Arc::clone(name),
            cause: "no crypto provider: install one with `CryptoProvider::install_default` before, or turn on adieu's \
                    feature `tls`, which brings ring"
                .into(),
        })
    })?;
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
    config.alpn_protocols = match cfg!(feature = "http2") {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(Arc::new(config))
}
