//! A stream of events as its handler sees it, and the body of the response that it becomes.
//!
//! The handler runs inside of the body: dropping the response drops the handler.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use adieu_core::{Winner, race};
use axum::body::Body as AxumBody;
use axum::response::sse::Event;
use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use super::conn_state::ConnShared;
use crate::component::BoxFuture;
use crate::net::Carried;
use crate::util::latch::Latch;
use crate::util::panics;

/// A response of server-sent events, with the events of axum. Made by [`ServerSentEvents`](super::ServerSentEvents).
///
/// The handler sends events until [`EventStream::until`] gives `None`, which says that the service stops. The response ends
/// when the handler has returned and the stream is dropped. If the client goes away, the handler is dropped where it waits.
pub struct EventStream {
    events: mpsc::Sender<Event>,
    link: Arc<Link>,
}

/// What the handler and the body of its response share.
#[derive(Default)]
struct Link {
    /// Open when the handler is to end.
    stops: Latch,
    carried: Mutex<Option<Carried>>,
}

impl Link {
    fn carried(&self) -> MutexGuard<'_, Option<Carried>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    /// Sends an event; returns when the response has room for it. Dropped half-way, the event is not sent.
    ///
    /// # Errors
    /// The response has ended.
    pub async fn send(&mut self, event: Event) -> io::Result<()> {
        let ended = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the response has ended");
        self.events.send(event).await.map_err(ended)
    }

    /// Waits for `future`, and gives up when the service stops: then `None`, and the future is dropped. Looks at the stop
    /// first, so a loop around a source that is always ready ends too.
    ///
    /// Cancel-safe if `future` is.
    pub async fn until<F: Future>(&mut self, future: F) -> Option<F::Output> {
        match race(self.link.stops.wait(), future).await {
            Winner::First(()) => None,
            Winner::Second(output) => Some(output),
        }
    }

    /// Leaves the connection to the new process with this state, once the handler has returned without an error and all
    /// events are out: if a [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md#server-sent-events) has
    /// stopped this one. Else the response ends as without this call. The last call counts.
    ///
    /// The state says what the client has got and what it gets: the id of the last event, and the subscription.
    ///
    /// # Errors
    /// The state is too large: more than 64 KiB. Or it has [unread bytes](Carried::unread), which are for TCP.
    pub fn carry(&mut self, state: Carried) -> io::Result<()> {
        state.check()?;
        if state.has_unread() {
            let why = "the handler of events has read nothing that could be left unread";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        *self.link.carried() = Some(state);
        Ok(())
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

/// The events of a handler as axum's response takes them.
pub(super) struct SentEvents(mpsc::Receiver<Event>);

impl Stream for SentEvents {
    type Item = Result<Event, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

/// The handler's end of a stream, and what the body is made of. One event waits for the transport at most.
pub(super) fn stream() -> (EventStream, SentEvents, EventWork) {
    let (events, sent) = mpsc::channel(1);
    let link = Arc::<Link>::default();
    let work = EventWork {
        link: Arc::clone(&link),
        handler: None,
        has_failed: false,
    };
    (EventStream { events, link }, SentEvents(sent), work)
}

/// The handler of a stream, as the body runs it.
pub(super) struct EventWork {
    link: Arc<Link>,
    handler: Option<BoxFuture<crate::Result>>,
    has_failed: bool,
}

impl EventWork {
    pub(super) fn runs(mut self, handler: BoxFuture<crate::Result>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// A handler that fails or panics costs its client the rest of its events, and no other client anything.
    fn poll(&mut self, cx: &mut Context<'_>, shared: &ConnShared) {
        let Some(handler) = &mut self.handler else {
            return;
        };
        let polled = catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx)));
        let result = polled.unwrap_or_else(|payload| {
            let panic = panics::describe(payload);
            let place = panic.place.as_deref().unwrap_or("?");
            Poll::Ready(Err(format!("it {panic} at {place}").into()))
        });
        let Poll::Ready(result) = result else {
            return;
        };
        self.handler = None;
        if let Err(error) = result {
            self.has_failed = true;
            let peer = shared.socket.peer();
            shared.server.core.log_deferred(move || {
                tracing::warn!(target: "adieu", peer, %error, "the handler of a stream of events failed");
            });
        }
    }
}

/// The body of the response.
pub(super) struct EventBody {
    shared: Arc<ConnShared>,
    work: EventWork,
    events: AxumBody,
    /// Ready when the handler is to end, though no new process takes the stream.
    end: Option<BoxFuture<()>>,
    /// The handler has left the stream to the new process.
    is_left: bool,
}

impl EventBody {
    pub(super) fn new(shared: Arc<ConnShared>, work: EventWork, events: AxumBody) -> Self {
        let of_end = Arc::clone(&shared);
        Self {
            shared,
            work,
            events,
            end: Some(Box::pin(async move { of_end.until_events_end().await })),
            is_left: false,
        }
    }

    /// All events are with the transport. Whether the connection may go to the new process, with this state.
    fn leave(&self, state: Carried) -> bool {
        let may_move = self.shared.is_time_to_leave_events();
        if may_move {
            self.shared.events.leave(state);
        }
        may_move
    }

    /// Tells the handler of the stop, when it is time.
    fn look_at_stop(&mut self, cx: &mut Context<'_>) {
        let Some(end) = &mut self.end else {
            return;
        };
        // Of a stream that can move nothing else decides: the driver looks at each stage of the stop.
        let is_due = match self.shared.may_leave_events() {
            true => self.shared.is_time_to_leave_events(),
            false => end.as_mut().poll(cx).is_ready(),
        };
        if is_due {
            self.end = None;
            self.work.link.stops.open();
        }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.is_left {
            // The driver moves the connection, or says that it stays.
            return match this.shared.events.is_left() {
                true => Poll::Pending,
                false => Poll::Ready(None),
            };
        }
        this.look_at_stop(cx);
        this.work.poll(cx, &this.shared);
        match Pin::new(&mut this.events).poll_frame(cx) {
            Poll::Ready(None) if !this.work.has_failed && this.work.handler.is_none() => {
                let state = this.work.link.carried().take();
                let is_left = state.is_some_and(|state| this.leave(state));
                this.is_left = is_left;
                if is_left {
                    Poll::Pending
                } else {
                    Poll::Ready(None)
                }
            }
            polled => polled,
        }
    }
}
