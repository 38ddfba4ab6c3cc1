//! A WebSocket's bytes. They are its handler's; at a stop we have a word with the client on the same line, whether the
//! handler does anything with it or not.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::ws_frames::{WsCursor, close_frame};
use crate::net::Stream;

/// Shared by the handler, through hyper, and the driver of the connection. Locked for one call that does not
/// wait.
#[derive(Clone)]
pub(super) struct SharedWs(Arc<Mutex<WsIo>>);

pub(super) struct WsIo {
    stream: Stream,
    cursor: WsCursor,
    /// The close frame, once it has begun.
    close_frame: [u8; 4],
    /// How much of it is written.
    close_written: usize,
}

impl SharedWs {
    /// Its handler has yet to write the head of the response.
    pub(super) fn new(stream: Stream) -> Self {
        Self::with(stream, WsCursor::default())
    }

    /// It came from the old process, between two frames.
    #[cfg(feature = "websocket")]
    pub(super) fn moved(stream: Stream) -> Self {
        Self::with(stream, WsCursor::at_a_frame())
    }

    fn with(stream: Stream, cursor: WsCursor) -> Self {
        Self(Arc::new(Mutex::new(WsIo {
            stream,
            cursor,
            close_frame: [0; 4],
            close_written: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WsIo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WsIo {
    pub(super) fn stream(&mut self) -> Pin<&mut Stream> {
        Pin::new(&mut self.stream)
    }

    /// The handler has written these.
    pub(super) fn written(&mut self, bytes: &[u8]) {
        self.cursor.advance(bytes);
    }

    /// Puts a close frame with this code between two frames, if there is room; not if the handler has said goodbye in its
    /// own words. Pending if there is more to do, and the task in `cx` has the line's only place to wait for room.
    pub(super) fn write_close_frame(
        &mut self,
        cx: &mut Context<'_>,
        code: u16,
    ) -> Poll<io::Result<()>> {
        if self.cursor.has_closed() || (self.close_written == 0 && !self.cursor.is_between_frames())
        {
            return Poll::Ready(Ok(()));
        }
        if self.close_written == 0 {
            self.close_frame = close_frame(code);
        }
        while self.close_written < self.close_frame.len() {
            let rest = &self.close_frame[self.close_written..];
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(written)) => self.close_written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Whether the next byte that the handler writes begins a frame, and no close frame is out.
    #[cfg(feature = "websocket")]
    pub(super) const fn is_between_frames(&self) -> bool {
        self.cursor.is_between_frames() && self.close_written == 0
    }

    /// Nothing may follow a close frame.
    pub(super) const fn has_written_close_frame(&self) -> bool {
        self.close_written > 0
    }
}
