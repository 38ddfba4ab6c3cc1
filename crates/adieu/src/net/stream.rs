//! A connection's bytes, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::SharedSocket;

pub(crate) enum Stream {
    Plain(SharedSocket),
    #[cfg(feature = "tls-no-provider")]
    Tls(Box<tokio_rustls::server::TlsStream<SharedSocket>>),
}

#[cfg(feature = "http")]
impl Stream {
    /// Whether the TLS handshake has agreed on HTTP/2; `None` if it said nothing, or was none.
    pub(crate) fn agreed_on_http2(&self) -> Option<bool> {
        match self {
            Self::Plain(_) => None,
            #[cfg(feature = "tls-no-provider")]
            Self::Tls(tls) => {
                let agreed = tls.get_ref().1.alpn_protocol();
                agreed.map(|protocol| protocol == b"h2")
            }
        }
    }
}

macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Plain(socket) => {
                let $inner = Pin::new(socket);
                $call
            }
            #[cfg(feature = "tls-no-provider")]
            Stream::Tls(tls) => {
                let $inner = Pin::new(&mut **tls);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            #[cfg(feature = "tls-no-provider")]
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_shutdown(cx))
    }
}
