//! Bodies on their way in and out, watched.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use super::facts::Facts;
use crate::component::BoxFuture;
use crate::error::BoxError;

/// The body of a request, as it comes in.
pub struct Upload {
    body: Incoming,
    facts: Arc<Facts>,
}

impl Upload {
    pub(super) const fn new(body: Incoming, facts: Arc<Facts>) -> Self {
        Self { body, facts }
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Upload").field(&self.body).finish()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() {
            self.facts.waits_for_body();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request under way: from its head to the last byte of its answer, or to the moment nobody wants it.
pub(super) struct InHand {
    facts: Arc<Facts>,
    id: u64,
    whole: bool,
}

impl InHand {
    pub(super) const fn new(facts: Arc<Facts>, id: u64) -> Self {
        Self {
            facts,
            id,
            whole: false,
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let Some(errand) = self.facts.end(self.id) else {
            return;
        };
        // Cut by us, at the end of the drain: this is what the report must name. A client that went away is not.
        if !self.whole && self.facts.server.core.stop.is_cancelling() {
            let peer = self.facts.wire.peer();
            let what = format!("{} {} from {peer}", errand.method, errand.uri.path());
            self.facts
                .server
                .lose(what, crate::sys::coarse_now().saturating_sub(errand.began));
        }
    }
}

pin_project! {
    /// The body of an answer.
    pub(super) struct Reply<B> {
        #[pin]
        kind: Kind<B>,
        in_hand: Option<InHand>,
        // For a stream of events, which may be ended between any two.
        ebb: Option<BoxFuture<()>>,
    }
}

pin_project! {
    #[project = KindProjected]
    enum Kind<B> {
        Handler { #[pin] body: B },
        Text { text: Option<&'static [u8]> },
    }
}

/// Data of a handler, or a text of our own.
pub(super) enum Piece<D> {
    Handler(D),
    Text(&'static [u8]),
}

impl<D: Buf> Buf for Piece<D> {
    fn remaining(&self) -> usize {
        match self {
            Self::Handler(data) => data.remaining(),
            Self::Text(text) => text.len(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Handler(data) => data.chunk(),
            Self::Text(text) => text,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Handler(data) => data.advance(count),
            Self::Text(text) => *text = &text[count..],
        }
    }
}

impl<B> Reply<B> {
    pub(super) fn handler(body: B, in_hand: InHand, ebb: Option<BoxFuture<()>>) -> Self {
        Self {
            kind: Kind::Handler { body },
            in_hand: Some(in_hand),
            ebb,
        }
    }

    pub(super) fn text(text: &'static [u8], in_hand: InHand) -> Self {
        Self {
            kind: Kind::Text { text: Some(text) },
            in_hand: Some(in_hand),
            ebb: None,
        }
    }
}

impl<B> Body for Reply<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Piece<B::Data>;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        let this = self.project();
        let polled = match this.kind.project() {
            KindProjected::Text { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(Piece::Text(text)))))
            }
            KindProjected::Handler { body } => match body.poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(frame.map(|frame| {
                    frame
                        .map(|frame| frame.map_data(Piece::Handler))
                        .map_err(Into::into)
                })),
                Poll::Pending => match this.ebb.as_mut().map(|ebb| ebb.as_mut().poll(cx)) {
                    // The end of a stream of events is a whole answer; the client connects again, elsewhere.
                    Some(Poll::Ready(())) => Poll::Ready(None),
                    _ => Poll::Pending,
                },
            },
        };
        if let (Poll::Ready(None), Some(in_hand)) = (&polled, this.in_hand.as_mut()) {
            in_hand.whole = true;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Handler { body } => body.is_end_stream(),
            Kind::Text { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Handler { body } => body.size_hint(),
            Kind::Text { text } => SizeHint::with_exact(text.map_or(0, |text| text.len() as u64)),
        }
    }
}
