//! The service that hyper calls: a request is counted, named, and passed to the user's service; a panic or an error
//! there becomes a 500.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use super::body::{RequestBody, RequestGuard, ResponseBody};
use super::close_policy::Protocol;
use super::conn_state::{ConnShared, now_ms};
use super::extensions::RequestExtensions;
use super::grpc_timeout::grpc_timeout;
use super::limits::Limits;
#[cfg(feature = "axum")]
use super::sse_response;
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::net::DrainStage;
use crate::util::panics;

pub(super) struct RequestService<S> {
    service: S,
    shared: Arc<ConnShared>,
    extensions: RequestExtensions,
}

impl<S> RequestService<S> {
    pub(super) fn new(service: S, shared: Arc<ConnShared>) -> Self {
        let extensions = RequestExtensions::new(&shared);
        Self {
            service,
            shared,
            extensions,
        }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for RequestService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
{
    type Response = Response<ResponseBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let shared = &self.shared;
        let id = shared.begin(request.method().clone(), request.uri().clone());
        let has_body = !request.body().is_end_stream();
        let watch = has_body.then(|| (Arc::clone(shared), id));
        #[cfg(feature = "websocket")]
        shared.remember_upgrade(&request);
        let request = request.map(|body| RequestBody::new(body, watch));
        #[cfg(feature = "axum")]
        let request = shared.events.next_request(request);
        self.answer(request, id)
    }
}

impl<S, B> RequestService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
{
    /// Of a request that is in flight with this number.
    pub(super) fn answer(
        &self,
        mut request: Request<RequestBody>,
        id: u64,
    ) -> ResponseFuture<S, S::Future> {
        let shared = &self.shared;
        let version = request.version();
        // In HTTP/2 it is about one stream.
        let is_connect = request.method() == Method::CONNECT && version < Version::HTTP_2;
        let has_body = !request.body().is_end_stream();
        self.extensions.attach(request.extensions_mut());
        #[cfg(feature = "tonic")]
        if is_of_kind(request.headers(), b"application/grpc") {
            self.extensions.attach_for_grpc(request.extensions_mut());
        }
        if version == Version::HTTP_2 && is_of_kind(request.headers(), b"application/grpc") {
            shared.is_grpc.store(true, Relaxed);
        }
        let late = Late::after(&shared.limits, request.headers());
        let guard = Some(RequestGuard::new(Arc::clone(shared), id));
        // Not kept for as long as the service is not ready: a header field of one byte takes seventy here.
        let state = if fields(request.headers()) > shared.limits.head_fields {
            Handler::Refused
        } else {
            Handler::Waiting {
                service: self.service.clone(),
                request: Some(request),
            }
        };
        ResponseFuture {
            state,
            version,
            is_connect,
            has_body: has_body.then_some(id),
            late,
            guard,
        }
    }
}

/// When a handler that has not begun its response is dropped.
struct Late {
    at: Pin<Box<Sleep>>,
    is_grpc: bool,
}

impl Late {
    /// `None` if the handler may think as long as it likes.
    fn after(limits: &Limits, headers: &HeaderMap) -> Option<Self> {
        let is_grpc = is_of_kind(headers, b"application/grpc");
        let asked = if is_grpc && limits.grpc_timeout {
            grpc_timeout(headers)
        } else {
            None
        };
        let limit = asked.map_or(limits.handler, |asked| asked.min(limits.handler));
        (limit < Duration::MAX).then(|| Self {
            at: Box::pin(tokio::time::sleep(limit)),
            is_grpc,
        })
    }
}

/// How many header fields there are. A client of HTTP/2 may send every cookie in a field of its own.
fn fields(headers: &HeaderMap) -> usize {
    let cookies = headers.get_all(COOKIE).iter().count();
    headers.len() - cookies.saturating_sub(1)
}

pin_project! {
    /// The answer in the making. Dropped when the client is gone, and the handler's future with it.
    pub(super) struct ResponseFuture<S, F> {
        #[pin]
        state: Handler<S, F>,
        version: Version,
        is_connect: bool,
        has_body: Option<u64>,
        late: Option<Late>,
        guard: Option<RequestGuard>,
    }
}

pin_project! {
    #[project = HandlerProjected]
    enum Handler<S, F> {
        // The service is not ready yet.
        Waiting { service: S, request: Option<Request<RequestBody>> },
        Working { #[pin] answer: F },
        // It has too many header fields.
        Refused,
        // It took too long.
        Dropped,
    }
}

impl<S, F, B> Future for ResponseFuture<S, F>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Future = F>,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<B>, S::Error>>,
    B: Body,
{
    type Output = Result<Response<ResponseBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // A handler that panics costs its client one response, and no other client anything.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let polled = poll_state(this.state.as_mut(), cx);
            let Some(late) = this.late.as_mut().filter(|_| polled.is_pending()) else {
                return polled;
            };
            ready!(late.at.as_mut().poll(cx));
            // What it holds is free before its client gets the response.
            this.state.set(Handler::Dropped);
            Poll::Ready(Err(Failed::Late(late.is_grpc)))
        }));
        let result = match polled {
            Ok(polled) => ready!(polled),
            Err(payload) => {
                let panic = panics::describe(payload);
                Err(Failed::Broken(Box::new(move || {
                    let place = panic.place.as_deref().unwrap_or("?");
                    tracing::error!(target: "adieu", place, "a request handler {panic}");
                })))
            }
        };
        let Some(guard) = this.guard.take() else {
            return Poll::Pending;
        };
        let shared = &guard.shared;
        shared.responds();
        if let (Some(id), Ok(response)) = (*this.has_body, &result)
            && is_of_kind(response.headers(), b"application/grpc")
        {
            shared.is_conversation(id);
        }
        let server = &shared.server;
        // One that moves to the new process stays open.
        let stops = server.drain_stage() >= DrainStage::Announced
            && shared.successor().is_none()
            && shared.turn_left().is_none();
        let leaving = (stops || server.has_clients_waiting() || shared.is_retired())
            && *this.version < Version::HTTP_2
            && !shared.has_more();
        let upgrade = match &result {
            Ok(response) => upgrade_of(response, *this.is_connect),
            Err(_) => None,
        };
        if let Some(protocol) = upgrade {
            shared.counters.enter(protocol, now_ms());
        }
        let mut response = match result {
            Ok(response) => wrap_response(response, guard),
            Err(Failed::Refused) => {
                let mut response =
                    Response::new(ResponseBody::text(b"Too many header fields\n", guard));
                *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                response
            }
            Err(Failed::Late(is_grpc)) => {
                shared.server.core.log_deferred(|| {
                    tracing::debug!(target: "adieu", "a handler took too long for its response, and was dropped");
                });
                late_response(is_grpc, guard)
            }
            Err(Failed::Broken(why)) => {
                shared.server.core.log_deferred(why);
                let mut response =
                    Response::new(ResponseBody::text(b"Internal Server Error\n", guard));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        };
        #[cfg(feature = "axum")]
        let is_event_stream = is_of_kind(response.headers(), b"text/event-stream");
        #[cfg(feature = "axum")]
        sse_response::look_at(&mut response, this.has_body.is_some(), is_event_stream);
        if leaving && upgrade.is_none() {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
            if *this.version == Version::HTTP_10 {
                // Else the protocol adds that it keeps the connection, for a client that has asked for it.
                *response.version_mut() = Version::HTTP_10;
            }
        }
        Poll::Ready(Ok(response))
    }
}

/// Why there is no answer of the service's own.
enum Failed {
    /// It was not asked.
    Refused,
    /// It took too long, and whether its client waits for a gRPC status.
    Late(bool),
    /// It has failed or panicked, and what is to be said of it.
    Broken(Box<dyn FnOnce() + Send>),
}

/// What the client of a handler hears that was dropped before its response.
fn late_response<B>(is_grpc: bool, guard: RequestGuard) -> Response<ResponseBody<B>> {
    if !is_grpc {
        let text = b"The response took too long\n";
        let mut response = Response::new(ResponseBody::text(text, guard));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return response;
    }
    // A response of trailers alone.
    let mut response = Response::new(ResponseBody::empty(guard));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static("4"));
    let message = HeaderValue::from_static("the deadline of the call has passed");
    headers.insert("grpc-message", message);
    response
}

fn poll_state<S, F, B>(
    mut state: Pin<&mut Handler<S, F>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<B>, Failed>>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Future = F>,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<B>, S::Error>>,
{
    let broken = |error: S::Error| {
        let error: BoxError = error.into();
        Failed::Broken(Box::new(move || {
            tracing::error!(target: "adieu", %error, "a service failed to answer");
        }))
    };
    loop {
        let answer = match state.as_mut().project() {
            HandlerProjected::Refused => return Poll::Ready(Err(Failed::Refused)),
            HandlerProjected::Dropped => return Poll::Pending,
            HandlerProjected::Working { answer } => return answer.poll(cx).map_err(broken),
            HandlerProjected::Waiting { service, request } => {
                if let Err(error) = ready!(service.poll_ready(cx)) {
                    return Poll::Ready(Err(broken(error)));
                }
                match request.take() {
                    Some(request) => service.call(request),
                    None => return Poll::Pending,
                }
            }
        };
        state.set(Handler::Working { answer });
    }
}

fn is_of_kind(headers: &HeaderMap, kind: &[u8]) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    content_type.is_some_and(|it| it.as_bytes().starts_with(kind))
}

/// What the connection becomes with this answer, if it is the handler's from then on.
fn upgrade_of<B>(response: &Response<B>, is_connect: bool) -> Option<Protocol> {
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            let to = response.headers().get(UPGRADE);
            let is_websocket =
                to.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
            Some(if is_websocket {
                Protocol::WebSocket
            } else {
                Protocol::Upgraded
            })
        }
        // A tunnel.
        status if is_connect && status.is_success() => Some(Protocol::Upgraded),
        _ => None,
    }
}

/// Wraps a handler's response, so that its end is counted.
fn wrap_response<B: Body>(response: Response<B>, guard: RequestGuard) -> Response<ResponseBody<B>> {
    let shared = &guard.shared;
    // Events have no end that could be known.
    let events = response.body().size_hint().exact().is_none()
        && is_of_kind(response.headers(), b"text/event-stream");
    let closing = events.then(|| -> BoxFuture<()> {
        let shared = Arc::clone(shared);
        Box::pin(async move {
            shared.until_events_end().await;
            if shared.may_leave_events() {
                // Its handler knows of the stop, and has to leave its state.
                tokio::time::sleep(shared.server.clamp_to_drain(shared.limits.patience)).await;
            }
        })
    });
    response.map(|body| ResponseBody::handler(body, guard, closing))
}
