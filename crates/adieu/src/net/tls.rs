//! TLS for a listener: the configuration in force, and the handshake.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::socket::SharedSocket;
use super::stream::Stream;
use super::tls_config::{TlsConfig, TlsSource};
use crate::component::BoxFuture;
use crate::error::{BoxError, Error};
use crate::reload::{Source, StagedValue};
use crate::runtime::shared::ServiceShared;

/// The configuration in force, shared by all connections to come. A reload replaces it; those that are open have theirs.
#[derive(Clone)]
pub(crate) struct Tls(Arc<CurrentConfig>);

struct CurrentConfig {
    listener: Arc<str>,
    /// In a reload.
    name: Arc<str>,
    source: TlsSource,
    current: Mutex<Arc<ServerConfig>>,
}

impl Tls {
    pub(super) fn load(name: &Arc<str>, config: TlsConfig) -> Result<Self, Error> {
        let TlsConfig(source) = config;
        let current = Mutex::new(source.load(name)?);
        Ok(Self(Arc::new(CurrentConfig {
            listener: Arc::clone(name),
            name: format!("{name} tls").into(),
            source,
            current,
        })))
    }

    /// From here on it is loaded again with everything else, if it can be another one.
    pub(crate) fn reload_with(&self, core: &ServiceShared) -> Result<(), Error> {
        if !self.0.source.changes() {
            return Ok(());
        }
        let source: Arc<dyn Source> = Arc::<CurrentConfig>::clone(&self.0);
        core.reloads().add(source)
    }

    /// The handshake. Dropped half-way, the connection closes.
    pub(crate) async fn accept(&self, socket: SharedSocket) -> io::Result<Stream> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.0.current()));
        Ok(Stream::Tls(Box::new(acceptor.accept(socket).await?)))
    }
}

impl CurrentConfig {
    fn current(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for CurrentConfig {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn load(self: Arc<Self>) -> BoxFuture<Result<Box<dyn StagedValue>, BoxError>> {
        Box::pin(async move {
            let ours = Arc::clone(&self);
            let loading = move || ours.source.load(&ours.listener);
            let new = tokio::task::spawn_blocking(loading).await??;
            let proposal: Box<dyn StagedValue> = Box::new(NewConfig { of: self, new });
            Ok(proposal)
        })
    }
}

struct NewConfig {
    of: Arc<CurrentConfig>,
    new: Arc<ServerConfig>,
}

impl StagedValue for NewConfig {
    fn commit(self: Box<Self>) {
        *self.of.current() = self.new;
    }
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
