//! Server-sent events for axum handlers: the response to a request, or the rest of one that the old process has begun.
//!
//! The new process gives the request of a moved stream to its service once more, and hyper writes a response as to any
//! request. Its head is not written to the socket: the client has one.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::IntoResponse;
use axum::response::sse::{KeepAlive, Sse};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Response, StatusCode, Version};

use super::body::ResponseBody;
use super::carried_request;
use super::conn_state::ConnShared;
use super::peer::Peer;
use super::service::is_of_kind;
use super::sse_stream::{self, EventBody, EventStream};
use crate::component::{BoxFuture, Ending};
use crate::net::{Carried, CarriedRequest, DrainStage, Kind, Successor};

type EventAdopter = Box<dyn FnOnce(EventStream, Carried) -> BoxFuture<crate::Result> + Send>;

/// Among the extensions of a request whose response the old process has begun.
#[derive(Clone)]
pub(super) struct Resumed;

/// What is known of the stream of events that is the present response of a connection.
#[derive(Default)]
pub(super) struct EventSlot {
    /// There was one on this connection.
    is_used: AtomicBool,
    /// The response is one whose handler may leave it to the new process.
    may_move: AtomicBool,
    /// The handler has left it, and the new process is yet to take it.
    is_left: AtomicBool,
    /// The client has the head of the response from the old process.
    is_resumed: AtomicBool,
    state: Mutex<Option<Box<EventState>>>,
}

#[derive(Default)]
struct EventState {
    /// The request, once a route has answered it with a stream.
    request: Option<CarriedRequest>,
    /// What the handler in the old process has left, until a route takes it.
    resumed: Option<Carried>,
    /// What the handler in this process has left.
    left: Option<Carried>,
}

impl EventSlot {
    fn state(&self) -> MutexGuard<'_, Option<Box<EventState>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut EventState) -> T) -> T {
        self.is_used.store(true, Relaxed);
        act(self.state().get_or_insert_default())
    }

    /// The connection comes from the old process, in the middle of a stream.
    pub(super) fn resume(&self, state: Option<Carried>) {
        self.with(|slot| slot.resumed = state);
    }

    /// The next request of the connection; whether its response has begun in the old process.
    pub(super) fn next_request(&self) -> bool {
        if !self.is_used.load(Relaxed) {
            return false;
        }
        self.may_move.store(false, Relaxed);
        self.is_left.store(false, Relaxed);
        let is_resumed = self.with(|slot| {
            slot.request = None;
            slot.left = None;
            slot.resumed.is_some()
        });
        self.is_resumed.store(is_resumed, Relaxed);
        is_resumed
    }

    /// Whether the handler has left it, and nothing more is written here.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Relaxed)
    }

    /// The stream stays with this process, and ends.
    pub(super) fn stays(&self) {
        self.is_left.store(false, Relaxed);
    }

    /// What goes along with the connection.
    pub(super) fn take_left(&self) -> Option<(CarriedRequest, Carried)> {
        if !self.is_left.swap(false, Relaxed) {
            return None;
        }
        self.with(|slot| slot.request.take().zip(slot.left.take()))
    }
}

/// A service has answered. If its response is a stream of events as a route has made it, that may move, or go on here. Of
/// one that goes on and is anything else, the client gets the end.
pub(super) fn meet_events<B: http_body::Body>(
    response: &mut Response<ResponseBody<B>>,
    has_body: bool,
) {
    let connection = response.body().connection();
    let slot = &connection.events;
    if !slot.is_used.load(Relaxed) {
        return;
    }
    let headers = response.headers();
    let is_plain = [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING]
        .iter()
        .all(|name| !headers.contains_key(name));
    let is_stream = response.status() == StatusCode::OK
        && is_plain
        && !has_body
        && is_of_kind(headers, b"text/event-stream")
        && response.body().is_of_unknown_length()
        && slot.with(|slot| slot.request.is_some());
    slot.may_move.store(is_stream, Relaxed);
    if !slot.is_resumed.swap(false, Relaxed) || is_stream {
        return;
    }
    slot.with(|slot| slot.resumed = None);
    let (peer, status) = (connection.socket.peer(), response.status());
    connection.server.core.log_deferred(move || {
        tracing::warn!(target: "adieu", peer, %status, "no route goes on with a stream of events of the old process");
    });
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().clear();
    response.body_mut().end_events();
}

impl ConnShared {
    /// The new process, if the present response is a stream of events that may move to it.
    pub(super) fn events_successor(&self) -> Option<&Arc<Successor>> {
        if !self.is_plain || !self.events.may_move.load(Relaxed) {
            return None;
        }
        self.server.successor_for(Kind::EventStream)
    }

    /// Whether the handler of the stream is to leave it now.
    pub(super) fn is_time_to_leave_events(&self) -> bool {
        self.server.drain_stage() >= DrainStage::Lingering && self.events_successor().is_some()
    }

    /// The handler of the stream has returned with this state, and all its events are with the transport. Whether the
    /// connection may go to the new process.
    pub(super) fn leave_events(&self, state: Carried) -> bool {
        let may_move = self.is_time_to_leave_events();
        if may_move {
            self.events.with(|slot| slot.left = Some(state));
            self.events.is_left.store(true, Relaxed);
        }
        may_move
    }
}

/// The extractor for a route that answers with server-sent events, which may move to the new process in a
/// [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md#server-sent-events). It takes the place of axum's
/// `Sse`, and its events are axum's.
///
/// The route gives one handler for new streams, and one for those that a handler of the old process has left with
/// [`EventStream::carry`]. For these the new process calls the same route with the same request: extractors, state and
/// middleware are as for any other. The client sees one response, whose events go on.
///
/// ```
/// use std::time::Duration;
///
/// use adieu::http::{EventStream, ServerSentEvents};
/// use adieu::net::Carried;
/// use axum::response::Response;
/// use axum::response::sse::Event;
///
/// async fn ticks(events: ServerSentEvents) -> Response {
///     // A client that comes back says what it has got.
///     let last = events.last_event_id().and_then(|id| id.parse().ok()).unwrap_or(0);
///     events
///         .adopt(async |stream, state| match (state.name(), state.version()) {
///             ("ticks", 1) => tick(stream, std::str::from_utf8(state.bytes())?.parse()?).await,
///             _ => Err("a state of another version".into()),
///         })
///         .respond(move |stream| tick(stream, last))
/// }
///
/// async fn tick(mut stream: EventStream, mut last: u64) -> adieu::Result {
///     while stream.until(tokio::time::sleep(Duration::from_secs(1))).await.is_some() {
///         last += 1;
///         stream.send(Event::default().id(last.to_string()).data("tick")).await?;
///     }
///     // The service stops.
///     Ok(stream.carry(Carried::new("ticks", 1, last.to_string()))?)
/// }
/// # let _: axum::Router = axum::Router::new().route("/", axum::routing::get(ticks));
/// ```
///
/// A stream moves if it is the response to a GET in HTTP/1.1 without TLS, and no middleware encodes it. Any other one ends in
/// a stop between two events, as one of axum does, and its client connects again. Where no adieu server has taken the request
/// in, the extractor is rejected with 500.
#[must_use]
pub struct ServerSentEvents {
    shared: Arc<ConnShared>,
    /// `None` if the stream cannot move.
    request: Option<CarriedRequest>,
    last_event_id: Option<String>,
    is_resumed: bool,
    adopter: Option<EventAdopter>,
    keep_alive: Option<KeepAlive>,
}

impl ServerSentEvents {
    /// The id of the last event that the client has got, if it has connected again: its header `Last-Event-ID`.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Takes the streams that a handler of the old process has left with [`EventStream::carry`]. Without this they end
    /// between two events, and so they do if the handler returns an error, because it does not understand the state.
    pub fn adopt<F, Fut>(mut self, handler: F) -> Self
    where
        F: FnOnce(EventStream, Carried) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        self.adopter = Some(Box::new(move |stream, state| {
            let work = handler(stream, state);
            Box::pin(async move { work.await.into_result() })
        }));
        self
    }

    /// Sends a comment when there was no event for a while, as axum does.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.keep_alive = Some(keep_alive);
        self
    }

    /// Answers the request. The handler runs while the client reads, and the response ends with it.
    #[must_use = "the response has to be returned"]
    pub fn respond<F, Fut>(self, handler: F) -> axum::response::Response
    where
        F: FnOnce(EventStream) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let Self {
            shared, request, ..
        } = self;
        let (stream, sent, work) = sse_stream::stream();
        let resumed = (self.is_resumed).then(|| shared.events.with(|slot| slot.resumed.take()));
        let handler: BoxFuture<crate::Result> = match (resumed.flatten(), self.adopter) {
            (Some(state), Some(adopter)) => adopter(stream, state),
            (Some(_), None) => Box::pin(async { Err("the route adopts no stream".into()) }),
            (None, _) => {
                let work = handler(stream);
                Box::pin(async move { work.await.into_result() })
            }
        };
        let response = match self.keep_alive {
            Some(keep_alive) => Sse::new(sent).keep_alive(keep_alive).into_response(),
            None => Sse::new(sent).into_response(),
        };
        if let Some(request) = request {
            shared.events.with(|slot| slot.request = Some(request));
        }
        response.map(|events| Body::new(EventBody::new(shared, work.runs(handler), events)))
    }
}

impl std::fmt::Debug for ServerSentEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSentEvents")
            .field("last_event_id", &self.last_event_id)
            .finish_non_exhaustive()
    }
}

impl<S: Sync> FromRequestParts<S> for ServerSentEvents {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let is_resumed = parts.extensions.remove::<Resumed>().is_some();
        let shared = Peer::of(&parts.extensions).and_then(Peer::connection);
        let Some(shared) = shared else {
            let why = "no adieu server has taken the request in";
            return Err((StatusCode::INTERNAL_SERVER_ERROR, why));
        };
        let may_move = parts.method == Method::GET && parts.version == Version::HTTP_11;
        let target = shared.last_target().filter(|_| may_move);
        let request = target.map(|target| carried_request::remember(target, &parts.headers));
        let last_event_id = parts.headers.get("last-event-id");
        let last_event_id = last_event_id.and_then(|id| id.to_str().ok());
        Ok(Self {
            last_event_id: last_event_id.map(str::to_owned),
            shared,
            request,
            is_resumed,
            adopter: None,
            keep_alive: None,
        })
    }
}
