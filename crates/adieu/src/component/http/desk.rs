//! The desk where requests are taken in: counted, named, handed to the user's service, answered whatever it does.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::{InHand, Reply, Upload};
use super::enclosed::Enclosed;
use super::facts::Facts;
use super::track::Stage;
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::net::Tide;
use crate::panics;

pub(super) struct Desk<S> {
    service: S,
    facts: Arc<Facts>,
    enclosed: Enclosed,
}

impl<S> Desk<S> {
    pub(super) fn new(service: S, facts: Arc<Facts>) -> Self {
        let enclosed = Enclosed::new(&facts);
        Self {
            service,
            facts,
            enclosed,
        }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Desk<S>
where
    S: Service<Request<Upload>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
{
    type Response = Response<Reply<B>>;
    type Error = BoxError;
    type Future = Answering<S, S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let facts = &self.facts;
        let id = facts.begin(request.method().clone(), request.uri().clone());
        let version = request.version();
        let has_body = !request.body().is_end_stream();
        let watch = has_body.then(|| (Arc::clone(facts), id));
        let mut request = request.map(|body| Upload::new(body, watch));
        self.enclosed.enclose(request.extensions_mut());
        let in_hand = Some(InHand::new(Arc::clone(facts), id));
        let state = State::Waiting {
            service: self.service.clone(),
            request: Some(request),
        };
        Answering {
            state,
            version,
            has_body: has_body.then_some(id),
            in_hand,
        }
    }
}

pin_project! {
    /// The answer in the making. Dropped when the client is gone, and the handler's future with it.
    pub(super) struct Answering<S, F> {
        #[pin]
        state: State<S, F>,
        version: Version,
        has_body: Option<u64>,
        in_hand: Option<InHand>,
    }
}

pin_project! {
    #[project = StateProjected]
    enum State<S, F> {
        // The service is not ready yet.
        Waiting { service: S, request: Option<Request<Upload>> },
        Working { #[pin] answer: F },
    }
}

impl<S, F, B> Future for Answering<S, F>
where
    S: Service<Request<Upload>, Response = Response<B>, Future = F>,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<B>, S::Error>>,
    B: Body,
{
    type Output = Result<Response<Reply<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // A handler that panics costs its client one answer, and nobody else anything.
        let polled = catch_unwind(AssertUnwindSafe(|| poll_state(this.state.as_mut(), cx)));
        let result = match polled {
            Ok(polled) => ready!(polled),
            Err(payload) => {
                let panic = panics::describe(payload);
                Err(Broken(Box::new(move || {
                    let place = panic.place.as_deref().unwrap_or("?");
                    tracing::error!(target: "adieu", place, "a request handler {panic}");
                })))
            }
        };
        let Some(in_hand) = this.in_hand.take() else {
            return Poll::Pending;
        };
        let facts = &in_hand.facts;
        if let Some(id) = *this.has_body {
            facts.answers(id);
        }
        let leaving = facts.server.tide() >= Tide::Turning
            && *this.version < Version::HTTP_2
            && !facts.has_more();
        let mut response = match result {
            Ok(response) => dress(response, in_hand),
            Err(Broken(why)) => {
                facts.server.core.aside(why);
                let mut response = Response::new(Reply::text(b"Internal Server Error\n", in_hand));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        };
        if leaving && response.status() != StatusCode::SWITCHING_PROTOCOLS {
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

/// The service has failed or panicked, and what is to be said of it.
struct Broken(Box<dyn FnOnce() + Send>);

fn poll_state<S, F, B>(
    mut state: Pin<&mut State<S, F>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<B>, Broken>>
where
    S: Service<Request<Upload>, Response = Response<B>, Future = F>,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<B>, S::Error>>,
{
    let broken = |error: S::Error| {
        let error: BoxError = error.into();
        Broken(Box::new(move || {
            tracing::error!(target: "adieu", %error, "a service failed to answer");
        }))
    };
    loop {
        let answer = match state.as_mut().project() {
            StateProjected::Working { answer } => return answer.poll(cx).map_err(broken),
            StateProjected::Waiting { service, request } => {
                if let Err(error) = ready!(service.poll_ready(cx)) {
                    return Poll::Ready(Err(broken(error)));
                }
                match request.take() {
                    Some(request) => service.call(request),
                    None => return Poll::Pending,
                }
            }
        };
        state.set(State::Working { answer });
    }
}

/// Dresses a handler's answer for the way out.
fn dress<B: Body>(response: Response<B>, in_hand: InHand) -> Response<Reply<B>> {
    let facts = &in_hand.facts;
    let headers = response.headers();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let websocket = headers
            .get(UPGRADE)
            .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        facts.enter(if websocket {
            Stage::WebSocket
        } else {
            Stage::Upgraded
        });
    }
    // Events have no end that could be known.
    let events = response.body().size_hint().exact().is_none()
        && headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let ebb = events.then(|| -> BoxFuture<()> {
        let server = Arc::clone(&facts.server);
        Box::pin(async move { server.ebbed.pass().await })
    });
    response.map(|body| Reply::handler(body, in_hand, ebb))
}
