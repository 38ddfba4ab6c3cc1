//! Server-sent events for axum handlers: the response to a request, or the rest of one that the old process has begun.
//!
//! The new process gives the request of a moved stream to its service once more, and hyper writes a response as to any
//! request. Its head is not written to the socket: the client has one.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode, Version};

use super::carried_request;
use super::conn_state::ConnShared;
use super::peer::Peer;
use super::sse_slot::Resumed;
use super::sse_stream::{self, EventBody, EventStream};
use crate::component::{BoxFuture, Ending};
use crate::net::{Carried, CarriedRequest};

type EventAdopter = Box<dyn FnOnce(EventStream, Carried) -> BoxFuture<crate::Result> + Send>;

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
    pub fn respond<F, Fut>(self, handler: F) -> Response
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
