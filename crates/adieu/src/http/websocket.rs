//! A WebSocket's bytes. They are its handler's; at a stop we have a word with the client on the same line, whether the
//! handler does anything with it or not.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::ws_frames::{CLOSE_1001, WsCursor};
use crate::net::Stream;

/// Shared by the handler, through hyper, and the driver of the connection. Locked for one call that does not
/// wait.
#[derive(Clone)]
pub(super) struct SharedWs(Arc<Mutex<WsIo>>);

pub(super) struct WsIo {
    stream: Stream,
    cursor: WsCursor,
    /// How much of the close frame is written.
    close_written: usize,
}

impl SharedWs {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(WsIo {
            stream,
            cursor: WsCursor::default(),
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

    /// Puts the close frame between two frames, if there is room; not if the handler has said goodbye in its own
    /// words. Pending if there is more to do, and the task in `cx` has the line's only place to wait for room.
    pub(super) fn write_close_frame(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.cursor.has_closed() || (self.close_written == 0 && !self.cursor.is_between_frames())
        {
            return Poll::Ready(Ok(()));
        }
        while self.close_written < CLOSE_1001.len() {
            let rest = &CLOSE_1001[self.close_written..];
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(written)) => self.close_written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Nothing may follow a close frame.
    pub(super) const fn has_written_close_frame(&self) -> bool {
        self.close_written > 0
    }
}
