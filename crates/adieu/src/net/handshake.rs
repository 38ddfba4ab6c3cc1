//! What a connection goes through before its first byte belongs to the protocol: the header of a proxy, and TLS.

use std::sync::Arc;

use super::proxy_protocol::ProxyProtocol;
use super::refusal::Refusal;
use super::socket::SharedSocket;
use super::stream::Stream;
use crate::error::Error;
use crate::runtime::shared::ServiceShared;

/// What a listener asks of every connection. Nothing by default.
#[derive(Clone, Default)]
pub(crate) struct Handshake {
    pub(super) proxy: Option<Arc<ProxyProtocol>>,
    #[cfg(feature = "tls-no-provider")]
    pub(super) tls: Option<super::Tls>,
}

impl Handshake {
    /// Whether a connection has to say first who its client is. One that another process has accepted has said it there.
    pub(crate) fn awaits_header(&self, socket: &SharedSocket) -> bool {
        self.proxy.is_some() && !socket.is_carried()
    }

    /// Whether the bytes of a connection are those of TLS.
    pub(crate) const fn is_tls(&self) -> bool {
        #[cfg(feature = "tls-no-provider")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls-no-provider"))]
        false
    }

    /// The header. Dropped half-way, the connection closes.
    pub(crate) async fn read_header(&self, socket: &SharedSocket) -> Result<(), Refusal> {
        match &self.proxy {
            // It takes no room in the task of a connection without it.
            Some(proxy) => Box::pin(proxy.read_header(socket)).await,
            None => Ok(()),
        }
    }

    /// TLS. Dropped half-way, the connection closes.
    #[cfg_attr(
        not(feature = "tls-no-provider"),
        expect(clippy::unused_async, reason = "there is TLS to wait for elsewhere")
    )]
    pub(crate) async fn secure(&self, socket: SharedSocket) -> Result<Stream, Refusal> {
        #[cfg(feature = "tls-no-provider")]
        if let Some(tls) = &self.tls {
            let accepted = tls.accept(socket).await;
            return accepted.map_err(|error| Refusal::of_handshake(&error));
        }
        Ok(Stream::Plain(socket))
    }

    /// From here on its files are read again with everything else.
    pub(crate) fn reload_with(&self, core: &ServiceShared) -> Result<(), Error> {
        #[cfg(feature = "tls-no-provider")]
        if let Some(tls) = &self.tls {
            tls.reload_with(core)?;
        }
        #[cfg(not(feature = "tls-no-provider"))]
        let _ = core;
        Ok(())
    }
}
