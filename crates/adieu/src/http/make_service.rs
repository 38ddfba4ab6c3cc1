//! What can be served over HTTP: a service for all requests, or one that is made for each connection.

use std::future::{Future, poll_fn};
use std::sync::Arc;

use bytes::Buf;
use http::{Request, Response};
use tower_service::Service;

use super::body::RequestBody;
use super::conn_state::{ConnShared, now_ms};
use super::connection;
use super::lifetime::Lifetimes;
use super::limits::Limits;
use super::peer::Peer;
use super::spread::Turns;
use crate::error::BoxError;
use crate::net::{Listener, Server, SharedSocket};

/// What [`App::http`](crate::App::http) and [`serve`](crate::serve()) take: an axum `Router`, any other tower service for
/// HTTP requests, or what makes a service for each connection, as `Router::into_make_service()` and
/// `Router::into_make_service_with_connect_info::<SocketAddr>()` do.
///
/// It is implemented for all of them, and not to be implemented by others. `Kind` says which of the two it is, and the
/// compiler finds it out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served over HTTP",
    label = "neither a service for `http::Request<adieu::http::RequestBody>` nor one that makes such services",
    note = "give it an axum `Router` whose state is provided (`with_state`), or a `tower::Service` that is `Clone + Send + 'static`",
    note = "`into_make_service_with_connect_info` needs the feature `axum` of adieu, and `Connected<adieu::http::Peer>` for its type"
)]
pub trait HttpService<Kind>: Sized {
    #[doc(hidden)]
    fn serves(self) -> Serves;
}

/// The [`HttpService`] that answers every request itself, like a router.
#[derive(Debug)]
pub enum PerRequest {}

/// The [`HttpService`] that makes a service for every connection.
#[derive(Debug)]
pub enum PerConnection {}

#[doc(hidden)]
#[expect(
    missing_debug_implementations,
    reason = "it is of no use outside this crate"
)]
pub struct Serves(pub(super) Start);

/// Starts serving; made where the type of the service is still known.
pub(super) type Start = Box<
    dyn FnOnce(Arc<Server>, Arc<Limits>, &Listener) -> Box<dyn FnMut(SharedSocket) + Send> + Send,
>;

impl<S, B> HttpService<PerRequest> for S
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn serves(self) -> Serves {
        serves(move |_| std::future::ready(Ok(self.clone())))
    }
}

impl<M, S, B> HttpService<PerConnection> for M
where
    M: Service<Peer, Response = S> + Clone + Send + 'static,
    M::Error: Into<BoxError>,
    M::Future: Send + 'static,
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn serves(self) -> Serves {
        serves(move |shared: &Arc<ConnShared>| {
            let (mut make, peer) = (self.clone(), Peer::of_connection(Arc::clone(shared)));
            // Dropped half-way, the connection closes.
            async move {
                poll_fn(|cx| make.poll_ready(cx))
                    .await
                    .map_err(Into::into)?;
                make.call(peer).await.map_err(Into::into)
            }
        })
    }
}

/// Serves each connection with what `make` gives for it.
fn serves<S, B, F>(make: impl Fn(&Arc<ConnShared>) -> F + Clone + Send + 'static) -> Serves
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
    F: Future<Output = Result<S, BoxError>> + Send + 'static,
{
    Serves(Box::new(move |server, limits, listener| {
        let handshake = listener.handshake.clone();
        let (lifetimes, turns) = (Lifetimes::new(), Turns::new());
        Box::new(move |socket: SharedSocket| {
            let age = socket.carried_counters().unwrap_or_default().age_ms;
            let shared = Arc::new(ConnShared::new(
                Arc::clone(&server),
                socket.clone(),
                Arc::clone(&limits),
                lifetimes.next(&limits, now_ms().saturating_sub(age)),
                turns.next(limits.spread),
                &handshake,
            ));
            let make = make.clone();
            let handshake = handshake.clone();
            let work = connection::serve_connection(Arc::clone(&shared), socket, handshake, make);
            server.spawn(shared, work);
        })
    }))
}
