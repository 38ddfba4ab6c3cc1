//! The body of a request on its way to the command.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use adieu::http::RequestBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::wire::WireState;

/// A command that is asked for `100 Continue` may never say it; clients wait for it as long, as RFC 9110 section 10.1.1 lets them.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// A body that is not touched before the head has left. Until then it goes [back](Returned) when this is dropped, for another
/// attempt.
pub(super) struct Upload {
    /// Until it is given back.
    body: Option<RequestBody>,
    state: Arc<WireState>,
    /// How many bytes had left before this request.
    before: u64,
    awaited: Option<(Arc<Continue>, Pin<Box<Sleep>>)>,
    is_touched: bool,
    back: Returned,
}

/// Where the body is once its upload was dropped, if nothing was read of it.
#[derive(Clone, Default)]
pub(super) struct Returned(Arc<Mutex<Option<RequestBody>>>);

impl Returned {
    pub(super) fn take(&self) -> Option<RequestBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether the command has asked for the body.
#[derive(Default)]
pub(super) struct Continue {
    is_said: AtomicBool,
    waits: Mutex<Option<Waker>>,
}

impl Continue {
    pub(super) fn say(&self) {
        self.is_said.store(true, Ordering::Release);
        let waits = self
            .waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waits) = waits {
            waits.wake();
        }
    }

    fn poll_said(&self, cx: &Context<'_>) -> Poll<()> {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.is_said.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Upload {
    pub(super) fn new(
        body: RequestBody,
        state: &Arc<WireState>,
        awaited: Option<Arc<Continue>>,
    ) -> Self {
        Self {
            body: Some(body),
            before: state.written(),
            state: Arc::clone(state),
            awaited: awaited.map(|it| (it, Box::pin(sleep(CONTINUE_TIMEOUT)))),
            is_touched: false,
            back: Returned::default(),
        }
    }

    pub(super) fn returned(&self) -> Returned {
        self.back.clone()
    }

    /// The client is not to send before the command asks for it.
    fn poll_continue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((said, time)) = &mut self.awaited
            && said.poll_said(cx).is_pending()
            && time.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        self.awaited = None;
        Poll::Ready(())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if !this.is_touched {
            std::task::ready!(this.state.poll_left(this.before, cx));
            std::task::ready!(this.poll_continue(cx));
            this.is_touched = true;
        }
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.is_touched {
            let mut back = self.back.0.lock().unwrap_or_else(PoisonError::into_inner);
            *back = self.body.take();
        }
    }
}
