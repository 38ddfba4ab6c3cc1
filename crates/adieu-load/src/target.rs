//! Where the load goes, and the connections to it.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A server, and how to reach it.
#[derive(Clone, Debug)]
pub struct Target {
    endpoint: Endpoint,
    tls: Option<TlsSettings>,
    window: Option<u32>,
}

#[derive(Clone, Debug)]
enum Endpoint {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
}

#[derive(Clone)]
struct TlsSettings {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl std::fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TlsSettings").field(&self.name).finish()
    }
}

/// Any connection.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}
/// A connection, of whichever kind.
pub type Connection = Box<dyn Pipe>;

impl Target {
    /// A TCP server.
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self {
            endpoint: Endpoint::Tcp(address),
            tls: None,
            window: None,
        }
    }

    /// A server at a Unix socket.
    #[cfg(unix)]
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: Endpoint::Unix(path.into()),
            tls: None,
            window: None,
        }
    }

    /// Speaks TLS with it, and trusts this root alone.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be a root, or the name cannot be one of a server.
    pub fn tls(mut self, root: CertificateDer<'static>, name: &str) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(io::Error::other)?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        self.tls = Some(TlsSettings {
            config: Arc::new(config),
            name: ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
        });
        Ok(self)
    }

    /// Speaks TLS with it and believes whatever certificate it shows: for a program of one's own on this machine,
    /// where the question is not who answers.
    ///
    /// # Errors
    ///
    /// If the name cannot be one of a server.
    pub fn tls_unverified(mut self, name: &str) -> io::Result<Self> {
        let config = crate::insecure_tls::accept_any().map_err(io::Error::other)?;
        self.tls = Some(TlsSettings {
            config: Arc::new(config),
            name: ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
        });
        Ok(self)
    }

    /// Receives at most so many bytes ahead of the reader.
    #[must_use]
    pub const fn window(mut self, bytes: u32) -> Self {
        self.window = Some(bytes);
        self
    }

    /// Offers this protocol in the handshake, if there is one.
    #[must_use]
    pub fn offering(mut self, protocol: &[u8]) -> Self {
        if let Some(settings) = &mut self.tls {
            let mut config = ClientConfig::clone(&settings.config);
            config.alpn_protocols = vec![protocol.to_vec()];
            settings.config = Arc::new(config);
        }
        self
    }

    /// Connects. An error of [`io::ErrorKind::ConnectionRefused`] says that no process listens; any other, that
    /// one had accepted. Dropped before its end, nothing stays open.
    ///
    /// # Errors
    ///
    /// As said.
    pub async fn connect(&self) -> io::Result<Connection> {
        let (connection, _) = self.connect_from().await?;
        Ok(connection)
    }

    /// As [`connect`](Self::connect), and returns the address of this end if it is TCP: by it the kernel's tables name the connection.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_from(&self) -> io::Result<(Connection, Option<SocketAddr>)> {
        match &self.endpoint {
            Endpoint::Tcp(address) => {
                let stream = match self.window {
                    None => TcpStream::connect(address).await?,
                    Some(bytes) => {
                        let socket = match address {
                            SocketAddr::V4(_) => TcpSocket::new_v4()?,
                            SocketAddr::V6(_) => TcpSocket::new_v6()?,
                        };
                        socket.set_recv_buffer_size(bytes)?;
                        socket.connect(*address).await?
                    }
                };
                stream.set_nodelay(true)?;
                let from = stream.local_addr().ok();
                Ok((self.secure(stream).await?, from))
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok((self.secure(stream).await?, None)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Completes when the server accepts a connection, which is closed at once. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If it still refuses after `patience`.
    pub async fn reachable(&self, patience: Duration) -> io::Result<()> {
        let accepted = async {
            while self.connect().await.is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        Ok(tokio::time::timeout(patience, accepted).await?)
    }

    async fn secure(&self, stream: impl Pipe + 'static) -> io::Result<Connection> {
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(settings) => {
                let connector = TlsConnector::from(Arc::clone(&settings.config));
                let secured = connector.connect(settings.name.clone(), stream).await;
                // Whatever the handshake failed of, a process had accepted.
                secured
                    .map(|stream| Box::new(stream) as Connection)
                    .map_err(io::Error::other)
            }
        }
    }
}
