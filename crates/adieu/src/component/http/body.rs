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
use crate::net::Tide;

/// The body of a request, as it comes in.
pub struct Upload {
    body: Incoming,
    /// Whom to tell that the body is waited for, if there is one to wait for.
    watch: Option<(Arc<Facts>, u64)>,
    waits: bool,
}

impl Upload {
    pub(super) const fn new(body: Incoming, watch: Option<(Arc<Facts>, u64)>) -> Self {
        Self {
            body,
            watch,
            waits: false,
        }
    }

    fn waits(&mut self, waits: bool) {
        if std::mem::replace(&mut self.waits, waits) != waits
            && let Some((facts, id)) = &self.watch
        {
            facts.body_is_awaited(*id, waits);
        }
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
        self.waits(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // A handler that gave the body up does not wait for it.
        self.waits(false);
    }
}

/// A hold on a request under way. Its answer in the making has one, or the answer's body, and each piece of it that
/// the transport has and may not have written yet; with the last of them the request ends.
pub(super) struct InHand {
    pub(super) facts: Arc<Facts>,
    id: u64,
    /// Whether all of it was written, if this is a piece's.
    written: Option<bool>,
}

impl InHand {
    pub(super) const fn new(facts: Arc<Facts>, id: u64) -> Self {
        Self {
            facts,
            id,
            written: None,
        }
    }

    /// The hold of a piece, which may be the last.
    fn hand_out(&self, is_last: bool) -> Self {
        self.facts.hand_out(self.id, is_last);
        Self::new(Arc::clone(&self.facts), self.id)
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        // Cut by us, at the end of the drain: this is what the report must name. A client that went away is not.
        let is_cut = self.facts.server.core.stop.is_cancelling();
        self.facts.let_go(self.id, self.written, |errand| {
            if is_cut {
                self.facts.lose_request(errand);
            }
        });
    }
}

pin_project! {
    /// The body of an answer.
    pub(super) struct Reply<B> {
        #[pin]
        kind: Kind<B>,
        in_hand: InHand,
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

/// Bytes of an answer that the transport has and may not have written yet.
pub(super) struct Piece<D: Buf> {
    data: Data<D>,
    in_hand: InHand,
}

/// Data of a handler, or a text of our own.
enum Data<D> {
    Handler(D),
    Text(&'static [u8]),
}

impl<D: Buf> Drop for Piece<D> {
    fn drop(&mut self) {
        self.in_hand.written = Some(!self.has_remaining());
    }
}

impl<D: Buf> Buf for Piece<D> {
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

impl<B> Reply<B> {
    pub(super) fn handler(body: B, in_hand: InHand, ebb: Option<BoxFuture<()>>) -> Self {
        Self {
            kind: Kind::Handler { body },
            in_hand,
            ebb,
        }
    }

    pub(super) fn text(text: &'static [u8], in_hand: InHand) -> Self {
        Self {
            kind: Kind::Text { text: Some(text) },
            in_hand,
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
        let in_hand = &*this.in_hand;
        let (frame, ended) = match this.kind.project() {
            KindProjected::Text { text } => {
                let frame = text.take().map(|text| Ok(Frame::data(Data::Text(text))));
                (frame, true)
            }
            KindProjected::Handler { mut body } => {
                let facts = &in_hand.facts;
                // Once it has ebbed the future is over, and must not be asked again.
                let ebbed = this.ebb.as_mut().is_some_and(|ebb| {
                    facts.server.ebbed.is_open() || ebb.as_mut().poll(cx).is_ready()
                });
                // One that never pauses may say its last words, and no more.
                let patience = facts.server.bounded(facts.limits.patience);
                if ebbed && facts.server.since(Tide::Ebb) > patience {
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
                        Poll::Pending if ebbed => (None, true),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            }
        };
        let is_data = matches!(&frame, Some(Ok(frame)) if frame.is_data());
        if ended && !is_data {
            in_hand.facts.said_all(in_hand.id);
        }
        let piece = |data| Piece {
            data,
            in_hand: in_hand.hand_out(ended),
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
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
