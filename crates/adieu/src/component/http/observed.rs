//! The bytes of a connection, watched: what passes through is written down in the [`Facts`], and what the facts
//! ask for is done to the bytes.
//!
//! - To hang up on an idle connection, its reader is told that the client has closed. The protocol then ends by
//!   itself, and we say a last word.
//! - The last word to an HTTP/1 client is a 408: a request that crosses our goodbye on the way gets an answer
//!   which tells the client to try again, instead of a reset.
//! - A WebSocket gets a close frame put between two frames of its handler.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::facts::Facts;
use super::frames::{Cursor, GOING_AWAY};
use super::track::Stage;
use crate::net::{Stream, Tide};

const TRY_AGAIN: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pub(super) struct Observed {
    stream: Stream,
    facts: Arc<Facts>,
    /// Read already, to find out which protocol it is.
    prefix: Bytes,
    /// The last three bytes read, in which a head may have begun to end.
    tail: [u8; 3],
    cursor: Cursor,
    /// How much of the close frame is written.
    close_written: usize,
    last_word: &'static [u8],
    ending: Ending,
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    Speaking,
    Closing,
    /// Waiting for the client to close its side: closing with unread data would reset the connection and take
    /// the answer with it.
    Draining,
}

impl Observed {
    pub(super) fn new(stream: Stream, facts: Arc<Facts>) -> Self {
        Self {
            stream,
            facts,
            prefix: Bytes::new(),
            tail: [0; 3],
            cursor: Cursor::default(),
            close_written: 0,
            last_word: b"",
            ending: Ending::No,
        }
    }

    /// Puts bytes back in front of what is still to be read.
    pub(super) fn unread(&mut self, prefix: Bytes) {
        self.prefix = prefix;
    }

    fn stream(&mut self) -> Pin<&mut Stream> {
        Pin::new(&mut self.stream)
    }

    fn count_heads(&mut self, bytes: &[u8]) -> u32 {
        let mut count = memchr::memmem::find_iter(bytes, b"\r\n\r\n").count();
        // An end of a head that lies across two reads.
        let mut seam = [0; 6];
        let start = bytes.len().min(3);
        seam[..3].copy_from_slice(&self.tail);
        seam[3..3 + start].copy_from_slice(&bytes[..start]);
        count += usize::from(memchr::memmem::find(&seam[..3 + start], b"\r\n\r\n").is_some());
        let kept = &seam[start..start + 3];
        self.tail = match bytes {
            [.., a, b, c] => [*a, *b, *c],
            _ => [kept[0], kept[1], kept[2]],
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Puts the close frame between two frames, if it is wanted and there is room.
    fn say_going_away(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let wanted = self.facts.track.closes_websocket()
            && !self.cursor.has_closed()
            && self.close_written < GOING_AWAY.len();
        if !wanted || (self.close_written == 0 && !self.cursor.is_between_frames()) {
            return Ok(());
        }
        while self.close_written < GOING_AWAY.len() {
            let rest = &GOING_AWAY[self.close_written..];
            match self.stream().poll_write(cx, rest) {
                Poll::Ready(written) => self.close_written += written?,
                Poll::Pending => return Ok(()),
            }
        }
        // Pending is driven on by the next poll of either direction.
        let _ = self.stream().poll_flush(cx)?;
        Ok(())
    }

    const fn has_said_going_away(&self) -> bool {
        self.close_written > 0
    }

    fn written(
        &mut self,
        result: Poll<io::Result<usize>>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Ready(Ok(count)) => {
                self.facts.wrote();
                if self.facts.stage() == Stage::WebSocket {
                    let mut left = *count;
                    for slice in bytes {
                        let part = &slice[..left.min(slice.len())];
                        self.cursor.advance(part);
                        left -= part.len();
                    }
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.facts.cannot_write(),
        }
        result
    }
}

impl AsyncRead for Observed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.prefix.is_empty() {
            let count = this.prefix.len().min(buf.remaining());
            buf.put_slice(&this.prefix[..count]);
            this.prefix.advance(count);
            return Poll::Ready(Ok(()));
        }
        let upgraded = matches!(this.facts.stage(), Stage::WebSocket | Stage::Upgraded);
        if upgraded {
            this.facts.reader.listen(cx);
            this.say_going_away(cx)?;
            if this.facts.was_cut.load(Relaxed) {
                return Poll::Ready(Ok(()));
            }
        } else if this.facts.track.has_hung_up() && this.facts.stage() != Stage::Http2 {
            this.last_word = TRY_AGAIN;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(this.stream().poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if !read.is_empty() {
            let heads = if upgraded { 0 } else { this.count_heads(read) };
            this.facts.read(read.len(), heads);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Observed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.facts.track.closes_websocket() {
            this.facts.writer.listen(cx);
            this.say_going_away(cx)?;
            if this.has_said_going_away() {
                // Nothing may follow a close frame; the handler need not know.
                return Poll::Ready(Ok(bytes.iter().map(|slice| slice.len()).sum()));
            }
        }
        let result = this.stream().poll_write_vectored(cx, bytes);
        this.written(result, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = this.stream().poll_flush(cx);
        // TLS takes more than the socket does, and only the flush tells.
        match &polled {
            Poll::Ready(_) => this.facts.track.flushed(),
            Poll::Pending => this.facts.cannot_write(),
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.ending {
                Ending::No => {
                    this.facts.enter(Stage::Parting);
                    // The last word and our end of the connection come in one packet.
                    this.facts.wire.hold_back();
                    this.ending = Ending::Speaking;
                }
                Ending::Speaking if this.last_word.is_empty() => this.ending = Ending::Closing,
                Ending::Speaking => {
                    let word = this.last_word;
                    let written = ready!(this.stream().poll_write(cx, word))?;
                    this.last_word = &word[written..];
                }
                Ending::Closing => {
                    ready!(this.stream().poll_shutdown(cx))?;
                    if this.facts.server.tide() == Tide::Flow {
                        return Poll::Ready(Ok(()));
                    }
                    // All is said only now; the client's time counts from here.
                    this.facts.enter(Stage::Parting);
                    this.ending = Ending::Draining;
                }
                Ending::Draining => {
                    let mut sink = [0; 512];
                    let mut sink = ReadBuf::new(&mut sink);
                    ready!(this.stream().poll_read(cx, &mut sink))?;
                    if sink.filled().is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        // Half a head ends in an error, after which nobody asks us to say the last word. It is short: if there is
        // no room for it the client does not read anyway.
        if self.ending == Ending::No && !self.last_word.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            let word = self.last_word;
            let _ = self.stream().poll_write(&mut cx, word);
            let _ = self.stream().poll_shutdown(&mut cx);
        }
        self.facts.gone.store(true, Relaxed);
        self.facts.bell.ring();
    }
}
