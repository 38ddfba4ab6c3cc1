//! The bytes of a connection, watched: what passes through is counted in the [`ConnShared`], and what the close
//! policy decides is done to the bytes.
//!
//! - To close an idle connection, hyper sees an end of file, as if the client had closed its side. hyper then ends the
//!   protocol, and we write the last bytes.
//! - An HTTP/1 client gets a 408 last: a request that crosses the close on the way gets an answer
//!   which tells the client to try again, instead of a reset.
//! - An HTTP/2 client gets a first GOAWAY long before the one that names the last stream. hyper
//!   would send both within a round trip, and requests that are only on their way out of the client would be refused.
//! - An HTTP/2 client that is cut gets a GOAWAY with the last stream that was seen.
//! - A WebSocket gets a close frame put between two frames of its handler.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::close_policy::Protocol;
use super::conn_state::{ConnShared, now_ms};
use super::h1_scanner::HeadScanner;
use super::h2_frames::{FrameTracker, GOAWAY_MAX};
use super::unavailable;
use super::websocket::SharedWs;
use crate::net::{CarriedCounters, DrainStage, Stream};

const TRY_AGAIN_408: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pub(super) struct ConnIo {
    transport: Transport,
    shared: Arc<ConnShared>,
    /// Read already, to find out which protocol it is, and counted.
    prefix: Bytes,
    /// Read by the old process, and not counted here.
    carried: Option<Box<CarriedBytes>>,
    /// It is another process's.
    is_released: bool,
    heads: HeadScanner,
    /// For HTTP/2.
    frames: Option<Box<FrameTracker>>,
    goaway: GoawayProgress,
    final_bytes: &'static [u8],
    shutdown_step: ShutdownStep,
    /// The head that comes next is not written: the client has it from the old process.
    #[cfg(feature = "axum")]
    hidden_head: Option<HeadEnd>,
}

/// How much of the end of a head was seen.
#[cfg(feature = "axum")]
#[derive(Default)]
struct HeadEnd(usize);

#[cfg(feature = "axum")]
impl HeadEnd {
    /// How many of these bytes belong to the head, and whether it ends with them.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        const END: &[u8] = b"\r\n\r\n";
        for (index, byte) in bytes.iter().enumerate() {
            self.0 = match END.get(self.0) {
                Some(expected) if expected == byte => self.0 + 1,
                _ => usize::from(*byte == b'\r'),
            };
            if self.0 == END.len() {
                return (index + 1, true);
            }
        }
        (bytes.len(), false)
    }
}

/// Bytes that came with a connection from the old process.
struct CarriedBytes {
    bytes: Bytes,
    /// When the first of them was read there, and the last, in milliseconds.
    began_ms: u64,
    last_ms: u64,
}

/// Where the bytes go.
enum Transport {
    Own(Stream),
    /// It has become a WebSocket.
    Shared(SharedWs),
    /// Only while it becomes one.
    Nowhere,
}

/// How far the GOAWAY that refuses nothing has come.
#[derive(Clone, Copy)]
enum GoawayProgress {
    Due,
    /// What is left of it.
    Writing(&'static [u8]),
    Flushing,
    Sent,
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShutdownStep {
    NotBegun,
    WritingFinalBytes,
    ClosingOurSide,
    /// Waiting for the client to close its side: closing with unread data would reset the connection and take
    /// the answer with it.
    AwaitingClientClose,
}

impl ConnIo {
    pub(super) fn new(stream: Stream, shared: Arc<ConnShared>) -> Self {
        Self {
            transport: Transport::Own(stream),
            shared,
            prefix: Bytes::new(),
            carried: None,
            is_released: false,
            heads: HeadScanner::default(),
            frames: None,
            goaway: GoawayProgress::Due,
            final_bytes: b"",
            shutdown_step: ShutdownStep::NotBegun,
            #[cfg(feature = "axum")]
            hidden_head: None,
        }
    }

    /// The old process has begun to answer this request: it is read here again, and the head of the response is not written.
    #[cfg(feature = "axum")]
    pub(super) fn goes_on_answering(&mut self, request: Vec<u8>) {
        let counters = &self.shared.counters;
        counters.read(now_ms(), request.len(), 1, false, true);
        self.unread(request.into());
        self.hidden_head = Some(HeadEnd::default());
    }

    /// How much of these bytes is not for the client.
    #[cfg(feature = "axum")]
    fn hide_head(&mut self, bytes: &[io::IoSlice<'_>]) -> Option<usize> {
        let head = self.hidden_head.as_mut()?;
        let mut hidden = 0;
        for slice in bytes {
            let (count, is_over) = head.take(slice);
            hidden += count;
            if is_over {
                self.hidden_head = None;
                break;
            }
        }
        Some(hidden)
    }

    /// Whether the client is in the middle of a response that this process has not gone on with.
    pub(super) const fn owes_rest_of_response(&self) -> bool {
        #[cfg(feature = "axum")]
        return self.hidden_head.is_some();
        #[cfg(not(feature = "axum"))]
        false
    }

    /// Puts bytes back in front of what is still to be read.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        self.prefix = if self.prefix.is_empty() {
            bytes
        } else {
            [bytes, std::mem::take(&mut self.prefix)].concat().into()
        };
    }

    /// What the old process has read comes before what is read here. It came in so many milliseconds ago, from the first
    /// byte of a half head to the last one.
    pub(super) fn carry(&mut self, bytes: Vec<u8>, counters: CarriedCounters) {
        let now_ms = now_ms();
        self.carried = (!bytes.is_empty()).then(|| {
            Box::new(CarriedBytes {
                bytes: bytes.into(),
                began_ms: now_ms.saturating_sub(counters.head_ms),
                last_ms: now_ms.saturating_sub(counters.idle_ms),
            })
        });
    }

    /// A copy of all that was read and not handled.
    pub(super) fn all_unread(&self) -> Vec<u8> {
        let carried = self.carried.as_ref();
        [&self.prefix[..], carried.map_or(&[], |it| &it.bytes[..])].concat()
    }

    /// The connection is another process's: this one's copy is closed, and nothing is said.
    pub(super) fn release(mut self) {
        self.is_released = true;
    }

    /// It came from the old process as a WebSocket, between two frames of its handler.
    #[cfg(feature = "websocket")]
    pub(super) fn is_moved_websocket(&mut self) {
        self.transport = match std::mem::replace(&mut self.transport, Transport::Nowhere) {
            Transport::Own(stream) => {
                let line = SharedWs::moved(stream);
                self.shared.share(line.clone());
                Transport::Shared(line)
            }
            shared => shared,
        };
    }

    /// The protocol is HTTP/2.
    pub(super) fn speaks_http2(&mut self) {
        self.frames = Some(Box::new(FrameTracker::new()));
    }

    /// Tells an HTTP/2 client to go elsewhere, when it is time and no frame is half written. Not ready while it is
    /// half said itself.
    fn send_goaway_max(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.goaway {
                GoawayProgress::Due => {
                    let is_between = self.frames.as_deref().is_some_and(FrameTracker::is_between);
                    let is_time = self.shared.should_announce_goaway();
                    if !is_between || !is_time || self.shared.should_refuse_streams() {
                        return Poll::Ready(Ok(()));
                    }
                    self.goaway = GoawayProgress::Writing(GOAWAY_MAX);
                }
                GoawayProgress::Writing([]) => self.goaway = GoawayProgress::Flushing,
                GoawayProgress::Writing(left) => {
                    let written = ready!(self.stream(|stream| stream.poll_write(cx, left)))?;
                    if written == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.shared.count_control_bytes(Some(written));
                    self.goaway = GoawayProgress::Writing(&left[written..]);
                }
                GoawayProgress::Flushing => {
                    ready!(self.stream(|stream| stream.poll_flush(cx)))?;
                    self.goaway = GoawayProgress::Sent;
                }
                GoawayProgress::Sent => return Poll::Ready(Ok(())),
            }
        }
    }

    /// What stands before an announcement that the protocol wants to make, and we have made already.
    fn before_second_goaway<'a>(&self, bytes: &'a [io::IoSlice<'_>]) -> Option<&'a [u8]> {
        let (GoawayProgress::Flushing | GoawayProgress::Sent) = self.goaway else {
            return None;
        };
        // It comes in one piece with whatever the protocol has to say at that moment, as all but bodies do.
        let first = bytes.iter().find(|slice| !slice.is_empty())?;
        let at = self.frames.as_deref()?.goaway_max_in(first)?;
        first.get(..at)
    }

    const fn is_writing_goaway(&self) -> bool {
        matches!(self.goaway, GoawayProgress::Writing(_))
    }

    /// Does something to the stream, which is locked for that long if it is shared.
    #[inline]
    fn stream<T>(
        &mut self,
        act: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut self.transport {
            Transport::Own(stream) => act(Pin::new(stream)),
            Transport::Shared(line) => act(line.lock().stream()),
            Transport::Nowhere => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// The line, if this is a WebSocket.
    fn line(&mut self) -> Option<SharedWs> {
        if self.shared.counters.protocol() != Protocol::WebSocket {
            return None;
        }
        self.transport = match std::mem::replace(&mut self.transport, Transport::Nowhere) {
            Transport::Own(stream) => {
                let line = SharedWs::new(stream);
                self.shared.share(line.clone());
                Transport::Shared(line)
            }
            shared => shared,
        };
        match &self.transport {
            Transport::Shared(line) => Some(line.clone()),
            _ => None,
        }
    }

    fn written(&mut self, bytes: &[io::IoSlice<'_>], result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Ready(Ok(count)) => {
                let mut work = self.frames.is_none();
                if let Some(frames) = &mut self.frames {
                    first(bytes, *count, |part| work |= frames.written(part));
                    self.shared.count_control_bytes((!work).then_some(*count));
                }
                self.shared.counters.wrote(now_ms(), work);
                // What hyper writes after the close has begun are the final bytes.
                self.final_bytes = b"";
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.shared.cannot_write(),
        }
    }

    /// As a handler of a WebSocket writes.
    fn write_to(
        &self,
        line: &SharedWs,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut ends = line.lock();
        if self.shared.counters.closes_websocket() {
            self.shared.writer.register(cx);
            if let Poll::Ready(said) = ends.write_close_frame(cx, self.shared.close_code()) {
                said?;
            }
            if ends.has_written_close_frame() {
                // The handler need not know.
                return Poll::Ready(Ok(bytes.iter().map(|slice| slice.len()).sum()));
            }
        }
        let result = ends.stream().poll_write_vectored(cx, bytes);
        if let Poll::Ready(Ok(count)) = &result {
            first(bytes, *count, |part| ends.written(part));
        }
        if result.is_pending() {
            // The driver may write a close frame: it then takes this task's place as the waiting writer, and wakes it.
            self.shared.writer.register(cx);
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

impl AsyncRead for ConnIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.prefix.is_empty() {
            let count = this.prefix.len().min(buf.remaining());
            buf.put_slice(&this.prefix[..count]);
            if let Some(frames) = &mut this.frames {
                frames.read(&this.prefix[..count]);
            }
            this.prefix.advance(count);
            return Poll::Ready(Ok(()));
        }
        let upgraded = matches!(
            this.shared.counters.protocol(),
            Protocol::WebSocket | Protocol::Upgraded
        );
        if upgraded {
            this.shared.reader.register(cx);
            if let Some(line) = this
                .line()
                .filter(|_| this.shared.counters.closes_websocket())
                && let Poll::Ready(said) =
                    line.lock().write_close_frame(cx, this.shared.close_code())
            {
                said?;
            }
            if this.shared.was_cut.load(Relaxed) {
                return Poll::Ready(Ok(()));
            }
        } else if this.shared.counters.is_closing()
            && this.shared.counters.protocol() != Protocol::Http2
        {
            this.final_bytes = TRY_AGAIN_408;
            return Poll::Ready(Ok(()));
        }
        if this.frames.is_some() {
            // What there is no room for now is said at the next look; if the client is gone, the read tells.
            let _ = this.send_goaway_max(cx);
        }
        let before = buf.filled().len();
        match &mut this.carried {
            None => ready!(this.stream(|stream| stream.poll_read(cx, buf)))?,
            Some(carried) => {
                let count = carried.bytes.len().min(buf.remaining());
                buf.put_slice(&carried.bytes[..count]);
                carried.bytes.advance(count);
            }
        }
        let read = &buf.filled()[before..];
        if !read.is_empty() {
            let (heads, work) = match &mut this.frames {
                Some(frames) => (0, frames.read(read)),
                None if upgraded => (0, true),
                None => (this.heads.heads_ended_in(read), true),
            };
            let in_body = this.heads.is_in_body();
            this.shared
                .counters
                .read(now_ms(), read.len(), heads, in_body, work);
            if let Some(frames) = &this.frames {
                this.shared
                    .counters
                    .is_inside(now_ms(), frames.unfinished());
            }
        }
        if let Some(carried) = this.carried.take_if(|carried| carried.bytes.is_empty()) {
            let counters = &this.shared.counters;
            counters.head_was_carried(carried.began_ms, carried.last_ms);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnIo {
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
        #[cfg(feature = "axum")]
        if let Some(hidden) = this.hide_head(bytes) {
            return Poll::Ready(Ok(hidden));
        }
        if this.is_writing_goaway() {
            ready!(this.send_goaway_max(cx))?;
        }
        let result = match this.line() {
            Some(line) => this.write_to(&line, cx, bytes),
            None => match this.before_second_goaway(bytes) {
                Some([]) => Poll::Ready(Ok(GOAWAY_MAX.len())),
                Some(before) => this.stream(|stream| stream.poll_write(cx, before)),
                None => this.stream(|stream| stream.poll_write_vectored(cx, bytes)),
            },
        };
        this.written(bytes, &result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Own(stream) => stream.is_write_vectored(),
            Transport::Shared(line) => line.lock().stream().is_write_vectored(),
            Transport::Nowhere => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = this.stream(|stream| stream.poll_flush(cx));
        // TLS takes more than the socket does, and only the flush tells.
        match &polled {
            Poll::Ready(_) => this.shared.counters.flushed(),
            Poll::Pending => this.shared.cannot_write(),
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.shutdown_step {
                ShutdownStep::NotBegun => {
                    this.shared
                        .counters
                        .enter(Protocol::AwaitingClose, now_ms());
                    // The last bytes and our end of the connection come in one packet.
                    this.shared.socket.cork();
                    this.shutdown_step = ShutdownStep::WritingFinalBytes;
                }
                ShutdownStep::WritingFinalBytes if this.final_bytes.is_empty() => {
                    this.shutdown_step = ShutdownStep::ClosingOurSide
                }
                ShutdownStep::WritingFinalBytes => {
                    let word = this.final_bytes;
                    let written = ready!(this.stream(|stream| stream.poll_write(cx, word)))?;
                    this.final_bytes = &word[written..];
                }
                ShutdownStep::ClosingOurSide => {
                    ready!(this.stream(|stream| stream.poll_shutdown(cx)))?;
                    let is_serving = this.shared.server.drain_stage() == DrainStage::Serving;
                    if is_serving && !this.shared.is_retired() {
                        return Poll::Ready(Ok(()));
                    }
                    // All is said only now; the client's time counts from here.
                    this.shared
                        .counters
                        .enter(Protocol::AwaitingClose, now_ms());
                    this.shutdown_step = ShutdownStep::AwaitingClientClose;
                }
                ShutdownStep::AwaitingClientClose => {
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

impl Drop for ConnIo {
    fn drop(&mut self) {
        if self.is_released {
            self.shared.gone.store(true, Relaxed);
            return;
        }
        // Half a head ends in an error, after which hyper does not shut the connection down, and neither does it when the
        // connection is cut: so the final bytes are written here. It is short: if there is no room for it the client does not read anyway.
        let frames = self.frames.take().filter(|_| !self.is_writing_goaway());
        let is_deadline = self.shared.server.core.stop.is_cancelling();
        let cut = self.shared.was_cut.load(Relaxed) || is_deadline;
        let is_ended = is_deadline || self.shared.is_cut_for_age();
        let is_owed = is_ended && self.shared.limits.unavailable_at_deadline;
        let final_bytes: Cow<'static, [u8]> = match &frames {
            Some(frames) if cut => {
                let streams = if is_owed { frames.unanswered() } else { &[] };
                let mut bytes = unavailable::http2(streams, self.shared.is_grpc.load(Relaxed));
                bytes.extend(frames.final_goaway().into_iter().flatten());
                bytes.into()
            }
            _ if self.owes_rest_of_response() => Cow::Borrowed(&b""[..]),
            None if is_owed && self.shared.owes_http1_response() => unavailable::HTTP1.into(),
            _ => self.final_bytes.into(),
        };
        if self.shutdown_step == ShutdownStep::NotBegun && !final_bytes.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = self.stream(|stream| stream.poll_write(&mut cx, &final_bytes));
            let _ = self.stream(|stream| stream.poll_shutdown(&mut cx));
            // What is left unread would reset the connection, and may take the word with it.
            self.shared.socket.discard_unread();
        } else if matches!(
            self.shared.counters.protocol(),
            Protocol::WebSocket | Protocol::Upgraded
        ) && !cut
        {
            // A handler that is done drops it, and over TLS the client is to know that this is the end.
            let mut cx = Context::from_waker(Waker::noop());
            let _ = self.stream(|stream| stream.poll_shutdown(&mut cx));
        }
        self.shared.gone.store(true, Relaxed);
        self.shared.waker.wake();
    }
}
