//! WebSockets for axum handlers: the upgrade of a request, or of a connection that the old process had.

use std::borrow::Cow;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Method, Request, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::body::RequestBody;
use super::carried_request::{self, text};
use super::conn_state::ConnShared;
use super::peer::Peer;
use super::ws_socket::WebSocket;
use crate::component::{BoxFuture, Ending};
use crate::error::BoxError;
use crate::net::{Carried, CarriedRequest};

/// What reads are put together in: small, because a connection has it for as long as it is open.
const READ_BUFFER: usize = 4 * 1_024;

/// What is done with a WebSocket; with the state of a handler of the old process if it comes from there.
pub(super) type Work =
    Box<dyn FnOnce(WebSocket, Option<Carried>) -> BoxFuture<crate::Result> + Send>;
type SocketAdopter = Box<dyn FnOnce(WebSocket, Carried) -> BoxFuture<crate::Result> + Send>;

/// Among the extensions of a request that the old process has answered: its connection is a WebSocket already.
#[derive(Clone)]
pub(super) struct Moved;

/// A WebSocket that a route has accepted.
pub(super) struct AcceptedUpgrade {
    pub(super) work: Work,
    pub(super) config: WebSocketConfig,
    pub(super) protocol: Option<HeaderValue>,
    /// Where the connection comes from; `None` if it is one of the old process.
    pub(super) on_upgrade: Option<OnUpgrade>,
}

/// The WebSocket of a connection, before and after its upgrade.
#[derive(Default)]
pub(super) struct UpgradeSlot {
    state: Mutex<UpgradeState>,
    /// Whether its handler may leave it to the new process.
    may_move: AtomicBool,
    /// Whether it has left it, and the new process is yet to take it.
    is_left: AtomicBool,
    /// Why it is closed, if it is not for the stop; else 0.
    close_code: AtomicU16,
}

#[derive(Default)]
struct UpgradeState {
    /// The last request for one.
    request: Option<Box<CarriedRequest>>,
    accepted: Option<Box<AcceptedUpgrade>>,
}

impl UpgradeSlot {
    fn state(&self) -> MutexGuard<'_, UpgradeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_accepted(&self) -> Option<Box<AcceptedUpgrade>> {
        self.state().accepted.take()
    }

    /// The handler begins; the request goes along if the connection moves.
    pub(super) fn begin(&self, protocol: Option<&HeaderValue>) {
        if let Some(request) = &mut self.state().request {
            request.protocol = protocol.map(text);
        }
        self.may_move.store(true, Relaxed);
    }

    pub(super) fn may_move(&self) -> bool {
        self.may_move.load(Relaxed)
    }

    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Relaxed)
    }

    pub(super) fn set_left(&self, is_left: bool) {
        self.is_left.store(is_left, Relaxed);
    }

    /// The handler has ended, and the connection with it.
    pub(super) fn closes(&self, code: u16) {
        self.close_code.store(code, Relaxed);
    }

    pub(super) fn close_code(&self) -> Option<u16> {
        Some(self.close_code.load(Relaxed)).filter(|code| *code != 0)
    }

    pub(super) fn request(&self) -> Option<CarriedRequest> {
        self.state().request.as_deref().cloned()
    }

    pub(super) fn remember(&self, request: CarriedRequest) {
        self.state().request = Some(Box::new(request));
    }
}

impl ConnShared {
    /// A request has come in. If it is one for a WebSocket, a route of the new process may have to see it again.
    pub(super) fn remember_upgrade<B>(&self, request: &Request<B>) {
        if is_upgrade(request.headers()) && request.version() == Version::HTTP_11 {
            let target = request.uri().to_string();
            self.upgrade
                .remember(carried_request::remember(target, request.headers()));
        }
    }
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let to = headers.get(UPGRADE);
    to.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The request again, as its route saw it in the old process.
pub(super) fn again(request: &CarriedRequest) -> Result<Request<RequestBody>, BoxError> {
    let mut again = Request::new(RequestBody::empty());
    *again.uri_mut() = request.target.parse()?;
    for field in carried_request::fields(request) {
        let (name, value) = field?;
        again.headers_mut().append(name, value);
    }
    again.extensions_mut().insert(Moved);
    Ok(again)
}

/// The extractor of a WebSocket that may move to the new process in a
/// [hand-off](https://github.com/adieu-rs/adieu/blob/main/docs/handoff.md#websockets). It takes the place of axum's, and
/// its messages are axum's.
///
/// The route gives one handler for new connections, and one for those that a handler of the old process has left with
/// [`WebSocket::carry`]. For these the new process calls the same route with the same request: extractors, state and
/// middleware are as for any other.
///
/// ```
/// use adieu::http::{WebSocket, WebSocketUpgrade};
/// use adieu::net::Carried;
/// use axum::response::Response;
///
/// async fn counter(upgrade: WebSocketUpgrade) -> Response {
///     upgrade
///         .adopt(async |socket, state| match (state.name(), state.version()) {
///             ("count", 1) => count(socket, std::str::from_utf8(state.bytes())?.parse()?).await,
///             _ => Err("a state of another version".into()),
///         })
///         .on_upgrade(|socket| count(socket, 0))
/// }
///
/// async fn count(mut socket: WebSocket, mut messages: u64) -> adieu::Result {
///     while let Some(message) = socket.recv().await {
///         if message?.to_text().is_ok_and(|text| !text.is_empty()) {
///             messages += 1;
///             socket.send(messages.to_string().into()).await?;
///         }
///     }
///     // The client has hung up, or the service stops.
///     Ok(socket.carry(Carried::new("count", 1, messages.to_string()))?)
/// }
/// # let _: axum::Router = axum::Router::new().route("/", axum::routing::get(counter));
/// ```
///
/// HTTP/1.1 only. Where no adieu server has taken the request in, it is rejected with 500.
#[must_use]
pub struct WebSocketUpgrade {
    shared: Arc<ConnShared>,
    /// `None` if the old process has answered the request.
    on_upgrade: Option<OnUpgrade>,
    key: HeaderValue,
    offered: Vec<HeaderValue>,
    protocol: Option<HeaderValue>,
    config: WebSocketConfig,
    adopter: Option<SocketAdopter>,
}

impl WebSocketUpgrade {
    /// Takes the connections that a handler of the old process has left with [`WebSocket::carry`]. Without this their
    /// clients get the code 1012, service restart; so they do if the handler returns an error, because it does not
    /// understand the state.
    pub fn adopt<F, Fut>(mut self, handler: F) -> Self
    where
        F: FnOnce(WebSocket, Carried) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        self.adopter = Some(Box::new(move |socket, state| {
            let work = handler(socket, state);
            Box::pin(async move { work.await.into_result() })
        }));
        self
    }

    /// The subprotocols that the handler speaks, the best first. The first one that the client has offered is chosen.
    pub fn protocols<I>(mut self, protocols: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Cow<'static, str>>,
    {
        let offered = &self.offered;
        self.protocol = protocols.into_iter().find_map(|protocol| {
            let protocol = protocol.into();
            let is_it = |offer: &&HeaderValue| offer.as_bytes() == protocol.as_bytes();
            offered.iter().find(is_it).cloned()
        });
        self
    }

    /// The most bytes of a message; 64 MiB if left out. A client that sends more is disconnected.
    pub const fn max_message_size(mut self, most: usize) -> Self {
        self.config.max_message_size = Some(most);
        if let Some(frame) = self.config.max_frame_size
            && frame > most
        {
            self.config.max_frame_size = Some(most);
        }
        self
    }

    /// Answers the request, and runs the handler once the connection is a WebSocket. When the handler has returned and the
    /// socket is dropped, the connection is closed: with code 1000, 1011 after an error, and in a stop 1001, or 1012 if
    /// another process has taken over.
    #[must_use = "the response has to be returned"]
    pub fn on_upgrade<F, Fut>(self, handler: F) -> Response
    where
        F: FnOnce(WebSocket) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let adopter = self.adopter;
        let work: Work = Box::new(move |socket, state| match (state, adopter) {
            (None, _) => {
                let work = handler(socket);
                Box::pin(async move { work.await.into_result() })
            }
            (Some(state), Some(adopter)) => adopter(socket, state),
            (Some(_), None) => Box::pin(async { Err("the route adopts no connection".into()) }),
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::try_from(derive_accept_key(self.key.as_bytes())) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = &self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
        }
        self.shared.upgrade.state().accepted = Some(Box::new(AcceptedUpgrade {
            work,
            config: self.config,
            protocol: self.protocol,
            on_upgrade: self.on_upgrade,
        }));
        response
    }
}

impl std::fmt::Debug for WebSocketUpgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSocketUpgrade")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

impl<S: Sync> FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let headers = &parts.headers;
        let bad = |why| Err((StatusCode::BAD_REQUEST, why));
        if parts.method != Method::GET || parts.version != Version::HTTP_11 {
            let why = "a WebSocket begins with GET in HTTP/1.1";
            return Err((StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let asks = headers.get_all(CONNECTION).iter().any(|value| {
            let mut words = value.as_bytes().split(|byte| *byte == b',');
            words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
        });
        if !asks || !is_upgrade(headers) {
            let why =
                "this is a WebSocket: `connection: upgrade` and `upgrade: websocket` are missing";
            return Err((StatusCode::UPGRADE_REQUIRED, why));
        }
        if headers
            .get(SEC_WEBSOCKET_VERSION)
            .map(HeaderValue::as_bytes)
            != Some(b"13")
        {
            return bad("`sec-websocket-version` is not 13");
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY).cloned() else {
            return bad("`sec-websocket-key` is missing");
        };
        let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        let offered = offered.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let offered = offered
            .filter_map(|offer| HeaderValue::from_bytes(offer.trim_ascii()).ok())
            .collect();
        let is_moved = parts.extensions.remove::<Moved>().is_some();
        let on_upgrade = parts.extensions.remove::<OnUpgrade>();
        let shared = Peer::of(&parts.extensions).and_then(|peer| peer.connection());
        let Some(shared) = shared.filter(|_| is_moved || on_upgrade.is_some()) else {
            let why = "no adieu server has taken the request in, or it was upgraded already";
            return Err((StatusCode::INTERNAL_SERVER_ERROR, why));
        };
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER;
        Ok(Self {
            shared,
            on_upgrade,
            key,
            offered,
            protocol: None,
            config,
            adopter: None,
        })
    }
}

/// What the client and the old process have agreed on has to be what this route says.
pub(super) fn is_agreed(accepted: &AcceptedUpgrade, request: &CarriedRequest) -> bool {
    accepted.protocol.as_ref().map(text) == request.protocol
}
