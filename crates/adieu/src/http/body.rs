//! Bodies on their way in and out, watched.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use super::conn_state::ConnShared;
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::net::DrainStage;

/// The body of a request, as it comes in.
pub struct RequestBody {
    /// `None`: it has none.
    body: Option<Incoming>,
    /// Whom to tell that the body is waited for, if there is one to wait for.
    watch: Option<(Arc<ConnShared>, u64)>,
    waits: bool,
}

impl RequestBody {
    pub(super) const fn new(body: Incoming, watch: Option<(Arc<ConnShared>, u64)>) -> Self {
        Self {
            body: Some(body),
            watch,
            waits: false,
        }
    }

    /// Of a request that has none.
    #[cfg(feature = "websocket")]
    pub(super) const fn empty() -> Self {
        Self {
            body: None,
            watch: None,
            waits: false,
        }
    }

    fn waits(&mut self, waits: bool) {
        if std::mem::replace(&mut self.waits, waits) != waits
            && let Some((shared, id)) = &self.watch
        {
            shared.body_is_awaited(*id, waits);
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Upload").field(&self.body).finish()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        self.waits(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        // A handler that gave the body up does not wait for it.
        self.waits(false);
    }
}

/// A hold on a request in flight. Its answer in the making has one, or the answer's body, and each piece of it that
/// the transport has and may not have written yet; with the last of them the request ends.
pub(super) struct RequestGuard {
    pub(super) shared: Arc<ConnShared>,
    id: u64,
    /// Whether all of it was written, if this is a piece's.
    written: Option<bool>,
}

impl RequestGuard {
    pub(super) const fn new(shared: Arc<ConnShared>, id: u64) -> Self {
        Self {
            shared,
            id,
            written: None,
        }
    }

    /// The hold of a piece, which may be the last.
    fn add_hold(&self, is_last: bool) -> Self {
        self.shared.add_hold(self.id, is_last);
        Self::new(Arc::clone(&self.shared), self.id)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // Cut by us, at the end of the drain: this is what the report must name. A client that went away is not.
        let is_cut = self.shared.server.core.stop.is_cancelling();
        self.shared.release_hold(self.id, self.written, |request| {
            if is_cut {
                self.shared.record_lost_request(request);
            }
        });
    }
}

/// The hold of a tunnel on its request.
pub(super) struct TunnelGuard {
    shared: Arc<ConnShared>,
    hold: Option<RequestGuard>,
}

impl TunnelGuard {
    /// `None` if the request has ended.
    pub(super) fn new(shared: Arc<ConnShared>, id: u64) -> Option<Self> {
        let begins = shared.begin_tunnel(id);
        begins.then(|| Self {
            hold: Some(RequestGuard::new(Arc::clone(&shared), id)),
            shared,
        })
    }
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.shared.end_tunnel();
        drop(self.hold.take());
        // The connection may be idle now, and its driver has seen the end of the stream before this.
        self.shared.waker.wake();
    }
}

pin_project! {
    /// The body of an answer.
    pub(super) struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
        guard: RequestGuard,
        // For a stream of events, which may be ended between any two.
        closing: Option<Closing>,
    }
}

/// When a stream of events is to end.
enum Closing {
    Awaited(BoxFuture<()>),
    Due,
}

impl Closing {
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if let Self::Awaited(awaited) = self
            && awaited.as_mut().poll(cx).is_ready()
        {
            *self = Self::Due;
        }
        matches!(self, Self::Due)
    }
}

pin_project! {
    #[project = KindProjected]
    enum Kind<B> {
        Handler { #[pin] body: B },
        Text { text: Option<&'static [u8]>, is_length_known: bool },
    }
}

/// Bytes of an answer that the transport has and may not have written yet.
pub(super) struct TrackedChunk<D: Buf> {
    data: Data<D>,
    guard: RequestGuard,
}

/// Data of a handler, or a text of our own.
enum Data<D> {
    Handler(D),
    Text(&'static [u8]),
}

impl<D: Buf> Drop for TrackedChunk<D> {
    fn drop(&mut self) {
        self.guard.written = Some(!self.has_remaining());
    }
}

impl<D: Buf> Buf for TrackedChunk<D> {
    fn remaining(&self) -> usize {
        match &self.data {
            Data::Handler(data) => data.remaining(),
            Data::Text(text) => text.len(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match &self.data {
            Data::Handler(data) => data.chunk(),
            Data::Text(text) => text,
        }
    }

    fn advance(&mut self, count: usize) {
        match &mut self.data {
            Data::Handler(data) => data.advance(count),
            Data::Text(text) => *text = &text[count..],
        }
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn handler(body: B, guard: RequestGuard, closing: Option<BoxFuture<()>>) -> Self {
        Self {
            kind: Kind::Handler { body },
            guard,
            closing: closing.map(Closing::Awaited),
        }
    }

    /// It ends with the head.
    pub(super) fn empty(guard: RequestGuard) -> Self {
        guard.shared.response_complete(guard.id);
        Self {
            kind: Kind::Text {
                text: None,
                is_length_known: true,
            },
            guard,
            closing: None,
        }
    }

    #[cfg(feature = "axum")]
    pub(super) fn connection(&self) -> &ConnShared {
        &self.guard.shared
    }

    /// In place of what a handler has made, the end of a stream of events that the old process has begun.
    #[cfg(feature = "axum")]
    pub(super) fn end_events(&mut self) {
        self.kind = Kind::Text {
            text: None,
            is_length_known: false,
        };
    }

    pub(super) fn text(text: &'static [u8], guard: RequestGuard) -> Self {
        Self {
            kind: Kind::Text {
                text: Some(text),
                is_length_known: true,
            },
            guard,
            closing: None,
        }
    }
}

#[cfg(feature = "axum")]
impl<B: Body> ResponseBody<B> {
    pub(super) fn is_of_unknown_length(&self) -> bool {
        match &self.kind {
            Kind::Handler { body } => body.size_hint().exact().is_none(),
            Kind::Text {
                is_length_known, ..
            } => !is_length_known,
        }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = TrackedChunk<B::Data>;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        let this = self.project();
        let guard = &*this.guard;
        let (frame, ended) = match this.kind.project() {
            KindProjected::Text { text, .. } => {
                let frame = text.take().map(|text| Ok(Frame::data(Data::Text(text))));
                (frame, true)
            }
            KindProjected::Handler { mut body } => {
                let shared = &guard.shared;
                let closing = this.closing.as_mut();
                let closing = closing.is_some_and(|closing| closing.is_due(cx));
                // One that waits for its turn to move has the rest of the drain for it.
                let closing = closing && !shared.has_left_events();
                // A stream that never pauses gets the time to end, and no more.
                let patience = shared.server.clamp_to_drain(shared.limits.patience);
                if closing && shared.server.stage_age(DrainStage::Closing) > patience {
                    (None, true)
                } else {
                    match body.as_mut().poll_frame(cx) {
                        Poll::Ready(Some(Ok(frame))) => (
                            Some(Ok(frame.map_data(Data::Handler))),
                            body.is_end_stream(),
                        ),
                        Poll::Ready(Some(Err(error))) => (Some(Err(error.into())), false),
                        Poll::Ready(None) => (None, true),
                        // The end of a stream of events is a whole answer; the client connects again, elsewhere.
                        Poll::Pending if closing => (None, true),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            }
        };
        let is_data = matches!(&frame, Some(Ok(frame)) if frame.is_data());
        if ended && !is_data {
            guard.shared.response_complete(guard.id);
        }
        let piece = |data| TrackedChunk {
            data,
            guard: guard.add_hold(ended),
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Handler { body } => body.is_end_stream(),
            Kind::Text {
                text,
                is_length_known,
            } => text.is_none() && *is_length_known,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Handler { body } => body.size_hint(),
            Kind::Text {
                is_length_known: false,
                ..
            } => SizeHint::default(),
            Kind::Text { text, .. } => {
                SizeHint::with_exact(text.map_or(0, |text| text.len() as u64))
            }
        }
    }
}
