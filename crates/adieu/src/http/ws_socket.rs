//! A WebSocket as its handler sees it, and the bytes below it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite as ws;

use super::conn_state::ConnShared;
use super::io::ConnIo;
use super::ws_unfinished::Unfinished;
use crate::net::{Carried, DrainStage};

/// The bytes below tungstenite, which is given one frame at a time: so it is known what of them no handler has seen.
pub(super) struct FrameIo {
    pub(super) io: ConnIo,
    /// Read, and not given on.
    inbox: Bytes,
    unfinished: Unfinished,
}

/// So much is read at a time.
const ROOM: usize = 4 * 1_024;

impl FrameIo {
    pub(super) fn new(io: ConnIo) -> Self {
        Self {
            io,
            inbox: Bytes::new(),
            unfinished: Unfinished::new(),
        }
    }

    /// A copy of all that was read and that no handler has seen; `None` if there is too much of it, or the client has
    /// said goodbye.
    pub(super) fn all_unread(&self) -> Option<Vec<u8>> {
        let unfinished = self.unfinished.bytes()?;
        Some([unfinished, &self.inbox, &self.io.all_unread()].concat())
    }

    /// Reads and forgets, up to the client's close frame or the end of the connection.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unfinished.has_closed() {
            let mut room = [0; 512];
            let mut room = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut *self).poll_read(cx, &mut room))?;
            if room.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for FrameIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.inbox.is_empty() {
            let mut room = [0; ROOM];
            let mut room = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut this.io).poll_read(cx, &mut room))?;
            this.inbox = Bytes::copy_from_slice(room.filled());
        }
        let most = this.inbox.len().min(buf.remaining());
        let count = this.unfinished.take(&this.inbox[..most]);
        buf.put_slice(&this.inbox[..count]);
        this.inbox.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FrameIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// What a handler has left when its socket is dropped.
#[derive(Default)]
pub(super) struct ReturnedSocket {
    pub(super) stream: Option<WebSocketStream<FrameIo>>,
    pub(super) carried: Option<Carried>,
}

/// Where it leaves it.
#[derive(Clone, Default)]
pub(super) struct Lender(Arc<Mutex<ReturnedSocket>>);

impl Lender {
    /// What is back, if it is.
    pub(super) fn take(&self) -> Option<(WebSocketStream<FrameIo>, Option<Carried>)> {
        let mut lent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = lent.stream.take()?;
        Some((stream, lent.carried.take()))
    }
}

/// A WebSocket, with the messages of axum. Made by [`WebSocketUpgrade`](super::WebSocketUpgrade).
///
/// When the service stops, [`WebSocket::recv`] gives everything the client has sent and then `None`, as if the client had
/// hung up: a handler that receives to the end needs to know nothing of the stop. If a new process takes over, `None` comes
/// at once, because what is not received goes to it with the connection.
pub struct WebSocket {
    lent: ReturnedSocket,
    shared: Arc<ConnShared>,
    lender: Lender,
    protocol: Option<HeaderValue>,
}

impl WebSocket {
    pub(super) fn new(
        stream: WebSocketStream<FrameIo>,
        shared: Arc<ConnShared>,
        lender: Lender,
        protocol: Option<HeaderValue>,
    ) -> Self {
        Self {
            lent: ReturnedSocket {
                stream: Some(stream),
                carried: None,
            },
            shared,
            lender,
            protocol,
        }
    }

    /// The next message; `None` when the client has closed the connection, or the service stops. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Result<Message, Error>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        loop {
            if self.is_to_move() {
                return Poll::Ready(None);
            }
            let Some(stream) = &mut self.lent.stream else {
                return Poll::Ready(None);
            };
            match Pin::new(stream).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => {
                    if let Some(message) = received(message) {
                        return Poll::Ready(Some(message));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Error::new(error)))),
                Poll::Ready(None) => return Poll::Ready(None),
                // The read has registered this task, and a change of the drain stage after it wakes it.
                Poll::Pending if self.is_to_move() || self.has_all() => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether it goes to the new process, if the handler leaves it.
    fn is_to_move(&self) -> bool {
        let stream = self.lent.stream.as_ref();
        self.is_stopping()
            && self.shared.websocket_successor().is_some()
            && stream.is_some_and(|stream| stream.get_ref().unfinished.bytes().is_some())
    }

    /// Whether the service stops, and everything is received that the client has sent.
    fn has_all(&self) -> bool {
        self.is_stopping() && !self.shared.socket.has_unread()
    }

    fn is_stopping(&self) -> bool {
        self.shared.server.drain_stage() >= DrainStage::Lingering
    }

    /// Sends a message, and returns when the kernel has it.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn send(&mut self, message: Message) -> Result<(), Error> {
        let mut message = Some(sent(message));
        poll_fn(|cx| {
            let Some(stream) = &mut self.lent.stream else {
                return Poll::Ready(Err(ws::Error::AlreadyClosed));
            };
            let mut stream = Pin::new(stream);
            if message.is_some() {
                ready!(stream.as_mut().poll_ready(cx))?;
                if let Some(message) = message.take() {
                    stream.as_mut().start_send(message)?;
                }
            }
            stream.poll_flush(cx)
        })
        .await
        .map_err(Error::new)
    }

    /// The subprotocol that was agreed on, if any.
    #[must_use]
    pub const fn protocol(&self) -> Option<&HeaderValue> {
        self.protocol.as_ref()
    }

    /// Leaves the connection to the new process with this state, once the handler has returned without an error: if a
    /// [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md#websockets) has stopped this one. Else the
    /// connection is closed as without this call. The last call counts.
    ///
    /// What the client has sent and the handler has not received goes along, up to half a message.
    ///
    /// # Errors
    /// The state is too large: more than 64 KiB. Or it has [unread bytes](Carried::unread), which are for TCP: of a WebSocket
    /// they are known.
    pub fn carry(&mut self, state: Carried) -> io::Result<()> {
        state.check()?;
        if state.has_unread() {
            let why = "what a WebSocket has not received goes along by itself";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.lent.carried = Some(state);
        Ok(())
    }
}

impl Drop for WebSocket {
    fn drop(&mut self) {
        let lent = std::mem::take(&mut self.lent);
        let lender = &self.lender.0;
        *lender.lock().unwrap_or_else(PoisonError::into_inner) = lent;
        // The task of the connection looks for it.
        self.shared.waker.wake();
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// `None` for a raw frame, which tungstenite never gives.
fn received(message: ws::Message) -> Option<Result<Message, Error>> {
    let text = |text: ws::Utf8Bytes| Utf8Bytes::try_from(Bytes::from(text)).map_err(Error::new);
    let message = match message {
        ws::Message::Text(it) => text(it).map(Message::Text),
        ws::Message::Binary(bytes) => Ok(Message::Binary(bytes)),
        ws::Message::Ping(bytes) => Ok(Message::Ping(bytes)),
        ws::Message::Pong(bytes) => Ok(Message::Pong(bytes)),
        ws::Message::Close(None) => Ok(Message::Close(None)),
        ws::Message::Close(Some(frame)) => text(frame.reason).map(|reason| {
            let code = frame.code.into();
            Message::Close(Some(CloseFrame { code, reason }))
        }),
        ws::Message::Frame(_) => return None,
    };
    Some(message)
}

fn sent(message: Message) -> ws::Message {
    match message {
        Message::Text(text) => ws::Message::Text(text.as_str().into()),
        Message::Binary(bytes) => ws::Message::Binary(bytes),
        Message::Ping(bytes) => ws::Message::Ping(bytes),
        Message::Pong(bytes) => ws::Message::Pong(bytes),
        Message::Close(frame) => ws::Message::Close(frame.map(|frame| ws::protocol::CloseFrame {
            code: frame.code.into(),
            reason: frame.reason.as_str().into(),
        })),
    }
}
