//! The bytes to and from the command. Counted on their way out: a request of which none has left may be sent again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What is known of a connection beside its bytes.
#[derive(Default)]
pub(super) struct WireState {
    written: AtomicU64,
    /// The body of a request that waits until its head has left.
    waits: Mutex<Option<Waker>>,
}

impl WireState {
    /// How many bytes have left.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Pending until more than so many bytes have left.
    pub(super) fn poll_left(&self, count: u64, cx: &Context<'_>) -> Poll<()> {
        if self.written() > count {
            return Poll::Ready(());
        }
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        Poll::Pending
    }

    fn left(&self, count: usize) {
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        let waits = self
            .waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waits) = waits {
            waits.wake();
        }
    }
}

pub(super) struct Wire {
    stream: Stream,
    state: Arc<WireState>,
}

impl Wire {
    pub(super) const fn new(stream: Stream, state: Arc<WireState>) -> Self {
        Self { stream, state }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count @ 1..)) = written {
            self.state.left(count);
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        };
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
