//! HTTP servers, for axum routers and any other tower service: what a handler finds in its request, and the limits.
//!
//! [`App::http`](crate::App::http) and [`serve`](crate::serve) start a server.

// HTTP servers: hyper's protocols on our own sockets, so that every kind of connection is closed without loss.
//
// | file | what it has |
// |---|---|
// | `server` | the builder, and the start of the accept loop |
// | `connection` | one connection from its accept to its end, and the driver that applies the close policy to it |
// | `http2` | such a connection, of HTTP/2 |
// | `conn_state` | what the tasks of one connection share: counters, requests in flight, the socket, wakers |
// | `close_policy` | what is to be done with a connection at a moment; pure |
// | `lifetime` | how old a connection may become, and how many requests it may have; pure |
// | `spread` | when in the lame-duck period a client is asked to go elsewhere; pure |
// | `eviction`, `peer_progress` | the same facts, asked for a connection that must make room, and of the kernel |
// | `io` | the bytes of a connection, counted on their way between hyper and the socket |
// | `h1_scanner`, `h2_frames`, `ws_frames`, `ws_unfinished` | where heads, frames and messages end in those bytes |
// | `make_service`, `peer` | what can be served, and who the client is |
// | `grpc_timeout`, `grpc_health` | the deadline of a gRPC call; the health service |
// | `service`, `body`, `extensions` | a request on its way to the handler, and its response on the way back |
// | `unavailable` | the responses to requests that are cut at the end of the drain |
// | `websocket` | the socket of a WebSocket, shared by its handler and the driver |
// | `ws_upgrade`, `ws_socket` | WebSockets for handlers of axum that may leave them to the new process |
// | `ws_handler` | such a handler from its beginning to its end, and the move of its connection |
// | `sse_upgrade`, `sse_stream` | server-sent events for handlers of axum that may leave them to the new process |
// | `sse_slot`, `sse_response` | whether the present response is such a stream, and may move or goes on |
// | `carried_request` | the request that a route of the new process sees again |

mod body;
#[cfg(feature = "axum")]
mod carried_request;
mod close_policy;
mod conn_state;
mod connection;
mod eviction;
mod extensions;
mod extract;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
#[cfg(all(test, feature = "http2"))]
mod goaway_tests;
#[cfg(feature = "tonic")]
mod grpc_health;
mod grpc_timeout;
mod h1_scanner;
mod h2_frames;
#[cfg(feature = "http2")]
mod http2;
mod io;
mod lifetime;
mod limits;
mod make_service;
mod peer;
mod peer_progress;
mod server;
mod service;
mod spread;
#[cfg(feature = "axum")]
mod sse_response;
#[cfg(feature = "axum")]
mod sse_slot;
#[cfg(feature = "axum")]
mod sse_stream;
#[cfg(feature = "axum")]
mod sse_upgrade;
mod unavailable;
mod websocket;
mod ws_frames;
#[cfg(feature = "websocket")]
mod ws_handler;
#[cfg(feature = "websocket")]
mod ws_socket;
#[cfg(feature = "websocket")]
mod ws_unfinished;
#[cfg(feature = "websocket")]
mod ws_upgrade;

pub use body::RequestBody;
pub use extract::Stopping;
#[cfg(feature = "tonic")]
pub use grpc_health::GrpcHealth;
pub use limits::Limits;
pub use make_service::{HttpService, PerConnection, PerRequest, Serves};
pub use peer::Peer;
pub use server::HttpBuilder;
#[cfg(feature = "axum")]
pub use sse_stream::EventStream;
#[cfg(feature = "axum")]
pub use sse_upgrade::ServerSentEvents;
#[cfg(feature = "websocket")]
pub use ws_socket::WebSocket;
#[cfg(feature = "websocket")]
pub use ws_upgrade::WebSocketUpgrade;
