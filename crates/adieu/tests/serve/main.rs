//! Servers as programs that come from `axum::serve` or tonic know them: who the client is, and what can be served.
#![cfg(all(feature = "axum", unix))]

mod alone;
mod client;
#[cfg(feature = "http2")]
mod lifetimes;
mod peer;
mod proxies;
#[cfg(all(
    feature = "admin",
    feature = "state",
    feature = "testing",
    feature = "tokio-util",
    feature = "tonic"
))]
mod spawned;
mod spread;
#[cfg(feature = "http2")]
mod timeouts;
#[cfg(feature = "http2")]
mod websocket_http2;
