//! The bytes of a connection, watched: what passes through is written down in the [`Facts`], and what the facts
//! ask for is done to the bytes.
//!
//! - To hang up on an idle connection, its reader is told that the client has closed. The protocol then ends by
//!   itself, and we say a last word.
//! - The last word to an HTTP/1 client is a 408: a request that crosses our goodbye on the way gets an answer
//!   which tells the client to try again, instead of a reset.
//! - An HTTP/2 client is told with a GOAWAY to go elsewhere, long before one that names the last stream. The protocol
//!   would send both within a round trip, and requests that are only on their way out of the client would be refused.
//! - The last word to an HTTP/2 client that is cut is a GOAWAY with the last stream that was seen.
//! - A WebSocket gets a close frame put between two frames of its handler.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::facts::Facts;
use super::heads::Heads;
use super::line::Line;
use super::streams::{ANNOUNCEMENT, Streams};
use super::track::Stage;
use crate::net::{Stream, Tide};

const TRY_AGAIN: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pub(super) struct Observed {
    way: Way,
    facts: Arc<Facts>,
    /// Read already, to find out which protocol it is.
    prefix: Bytes,
    heads: Heads,
    /// For HTTP/2.
    streams: Option<Box<Streams>>,
    announcement: Announcement,
    last_word: &'static [u8],
    ending: Ending,
}

/// Where the bytes go.
enum Way {
    Own(Stream),
    /// It has become a WebSocket.
    Shared(Line),
    /// Only while it becomes one.
    Nowhere,
}

/// How far the GOAWAY that refuses nothing has come.
#[derive(Clone, Copy)]
enum Announcement {
    Due,
    /// What is left of it.
    Saying(&'static [u8]),
    Flushing,
    Said,
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
            way: Way::Own(stream),
            facts,
            prefix: Bytes::new(),
            heads: Heads::default(),
            streams: None,
            announcement: Announcement::Due,
            last_word: b"",
            ending: Ending::No,
        }
    }

    /// Puts bytes back in front of what is still to be read.
    pub(super) fn unread(&mut self, prefix: Bytes) {
        self.prefix = prefix;
    }

    /// The protocol is HTTP/2.
    pub(super) fn speaks_http2(&mut self) {
        self.streams = Some(Box::new(Streams::new()));
    }

    /// Tells an HTTP/2 client to go elsewhere, when it is time and no frame is half written. Not ready while it is
    /// half said itself.
    fn announce(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.announcement {
                Announcement::Due => {
                    let is_between = self.streams.as_deref().is_some_and(Streams::is_between);
                    let is_time = self.facts.is_time_to_turn();
                    if !is_between || !is_time || self.facts.is_time_to_draw_the_line() {
                        return Poll::Ready(Ok(()));
                    }
                    self.announcement = Announcement::Saying(ANNOUNCEMENT);
                }
                Announcement::Saying([]) => self.announcement = Announcement::Flushing,
                Announcement::Saying(left) => {
                    let written = ready!(self.stream(|stream| stream.poll_write(cx, left)))?;
                    if written == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.facts.talked(Some(written));
                    self.announcement = Announcement::Saying(&left[written..]);
                }
                Announcement::Flushing => {
                    ready!(self.stream(|stream| stream.poll_flush(cx)))?;
                    self.announcement = Announcement::Said;
                }
                Announcement::Said => return Poll::Ready(Ok(())),
            }
        }
    }

    /// What stands before an announcement that the protocol wants to make, and we have made already.
    fn once_more_in<'a>(&self, bytes: &'a [io::IoSlice<'_>]) -> Option<&'a [u8]> {
        let (Announcement::Flushing | Announcement::Said) = self.announcement else {
            return None;
        };
        // It comes in one piece with whatever the protocol has to say at that moment, as all but bodies do.
        let first = bytes.iter().find(|slice| !slice.is_empty())?;
        let at = self.streams.as_deref()?.announcement_in(first)?;
        first.get(..at)
    }

    const fn is_announcing(&self) -> bool {
        matches!(self.announcement, Announcement::Saying(_))
    }

    /// Does something to the stream, which is locked for that long if it is shared.
    #[inline]
    fn stream<T>(
        &mut self,
        act: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut self.way {
            Way::Own(stream) => act(Pin::new(stream)),
            Way::Shared(line) => act(line.lock().stream()),
            Way::Nowhere => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// The line, if this is a WebSocket.
    fn line(&mut self) -> Option<Line> {
        if self.facts.stage() != Stage::WebSocket {
            return None;
        }
        self.way = match std::mem::replace(&mut self.way, Way::Nowhere) {
            Way::Own(stream) => {
                let line = Line::new(stream);
                self.facts.share(line.clone());
                Way::Shared(line)
            }
            shared => shared,
        };
        match &self.way {
            Way::Shared(line) => Some(line.clone()),
            _ => None,
        }
    }

    fn written(&mut self, bytes: &[io::IoSlice<'_>], result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Ready(Ok(count)) => {
                let mut work = self.streams.is_none();
                if let Some(streams) = &mut self.streams {
                    first(bytes, *count, |part| work |= streams.written(part));
                    self.facts.talked((!work).then_some(*count));
                }
                self.facts.wrote(work);
                // What the protocol says after we have hung up is the last word.
                self.last_word = b"";
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.facts.cannot_write(),
        }
    }

    /// As a handler of a WebSocket writes.
    fn write_to(
        &self,
        line: &Line,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut ends = line.lock();
        if self.facts.track.closes_websocket() {
            self.facts.writer.listen(cx);
            if let Poll::Ready(said) = ends.say_going_away(cx) {
                said?;
            }
            if ends.has_said_going_away() {
                // The handler need not know.
                return Poll::Ready(Ok(bytes.iter().map(|slice| slice.len()).sum()));
            }
        }
        let result = ends.stream().poll_write_vectored(cx, bytes);
        if let Poll::Ready(Ok(count)) = &result {
            first(bytes, *count, |part| ends.written(part));
        }
        if result.is_pending() {
            // Whoever else writes takes our place in the queue, and rings.
            self.facts.writer.listen(cx);
        }
        result
    }
}

/// The first so many bytes of all slices, slice by slice.
fn first(slices: &[io::IoSlice<'_>], count: usize, mut take: impl FnMut(&[u8])) {
    let mut left = count;
    for slice in slices {
        let part = &slice[..left.min(slice.len())];
        take(part);
        left -= part.len();
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
            if let Some(streams) = &mut this.streams {
                streams.read(&this.prefix[..count]);
            }
            this.prefix.advance(count);
            return Poll::Ready(Ok(()));
        }
        let upgraded = matches!(this.facts.stage(), Stage::WebSocket | Stage::Upgraded);
        if upgraded {
            this.facts.reader.listen(cx);
            if let Some(line) = this.line().filter(|_| this.facts.track.closes_websocket())
                && let Poll::Ready(said) = line.lock().say_going_away(cx)
            {
                said?;
            }
            if this.facts.was_cut.load(Relaxed) {
                return Poll::Ready(Ok(()));
            }
        } else if this.facts.track.has_hung_up() && this.facts.stage() != Stage::Http2 {
            this.last_word = TRY_AGAIN;
            return Poll::Ready(Ok(()));
        }
        if this.streams.is_some() {
            // What there is no room for now is said at the next look; if the client is gone, the read tells.
            let _ = this.announce(cx);
        }
        let before = buf.filled().len();
        ready!(this.stream(|stream| stream.poll_read(cx, buf)))?;
        let read = &buf.filled()[before..];
        if !read.is_empty() {
            let (heads, work) = match &mut this.streams {
                Some(streams) => (0, streams.read(read)),
                None if upgraded => (0, true),
                None => (this.heads.ended_in(read), true),
            };
            let in_body = this.heads.is_in_body();
            this.facts.read(read.len(), heads, in_body, work);
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
        if this.is_announcing() {
            ready!(this.announce(cx))?;
        }
        let result = match this.line() {
            Some(line) => this.write_to(&line, cx, bytes),
            None => match this.once_more_in(bytes) {
                Some([]) => Poll::Ready(Ok(ANNOUNCEMENT.len())),
                Some(before) => this.stream(|stream| stream.poll_write(cx, before)),
                None => this.stream(|stream| stream.poll_write_vectored(cx, bytes)),
            },
        };
        this.written(bytes, &result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        match &self.way {
            Way::Own(stream) => stream.is_write_vectored(),
            Way::Shared(line) => line.lock().stream().is_write_vectored(),
            Way::Nowhere => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = this.stream(|stream| stream.poll_flush(cx));
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
                    let written = ready!(this.stream(|stream| stream.poll_write(cx, word)))?;
                    this.last_word = &word[written..];
                }
                Ending::Closing => {
                    ready!(this.stream(|stream| stream.poll_shutdown(cx)))?;
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
                    ready!(this.stream(|stream| stream.poll_read(cx, &mut sink)))?;
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
        // Half a head ends in an error, after which nobody asks us to say the last word; who is cut is not asked
        // either. It is short: if there is no room for it the client does not read anyway.
        let streams = self.streams.take().filter(|_| !self.is_announcing());
        let line = streams.and_then(|streams| streams.line());
        let cut = self.facts.was_cut.load(Relaxed) || self.facts.server.core.stop.is_cancelling();
        let word = match &line {
            Some(line) if cut => line,
            _ => self.last_word,
        };
        if self.ending == Ending::No && !word.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = self.stream(|stream| stream.poll_write(&mut cx, word));
            let _ = self.stream(|stream| stream.poll_shutdown(&mut cx));
            // What is left unread would reset the connection, and may take the word with it.
            self.facts.wire.discard_unread();
        }
        self.facts.gone.store(true, Relaxed);
        self.facts.bell.ring();
    }
}
