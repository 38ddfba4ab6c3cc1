//! What a client may hold open, and for how long.

use std::time::Duration;

/// Limits of an HTTP server. All are on by default but those of the age and the requests of a connection; the first
/// group protects the running server, the second the stop.
///
/// ```
/// # use std::time::Duration;
/// let limits = adieu::http::Limits { keep_alive: Duration::from_secs(15), ..adieu::http::Limits::default() };
/// assert_eq!(limits.linger, Duration::from_millis(500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. For a client beyond it the connection that has been idle for the longest is closed; if
    /// none is idle, it waits until one is, or ends. 16,384, or seven eighths of the file descriptors that are free when
    /// the service begins to listen, if that is less.
    pub connections: usize,
    /// From the accept to the end of the TLS handshake. 10 s.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head, however many bytes of it come; also for the first byte of
    /// the first request. 30 s.
    pub head: Duration,
    /// The largest request head of HTTP/1, in bytes; a larger one is answered with 431. 64 KiB.
    pub head_size: usize,
    /// The most header fields of a request; more are answered with 431. All cookies of an HTTP/2 request count as one. 100.
    pub head_fields: usize,
    /// The largest request head of HTTP/2, as that counts it: names and values, not compressed, and 32 bytes for each
    /// field. A larger one is answered with 431. 16 KiB.
    pub http2_head_size: u32,
    /// Requests at a time on one HTTP/2 connection; its client is told the number. 100.
    pub http2_streams: u32,
    /// Without a byte from or to the client while a request or an answer is under way that it must send or take more
    /// of, or after it has closed its side. 60 s.
    pub stall: Duration,
    /// An idle connection. 75 s.
    pub keep_alive: Duration,
    /// The age of a connection, from its accept, at which its client is told to connect again, so that long connections
    /// spread over new replicas: the next response of HTTP/1 says `Connection: close`, an HTTP/2 client gets a GOAWAY and
    /// its streams finish, and an idle connection is closed once it was quiet for `linger`. Each connection has up to a
    /// tenth more or less, so that those opened together do not end together. Off: [`Duration::MAX`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// let limits = adieu::http::Limits {
    ///     max_connection_age: Duration::from_secs(300),
    ///     max_connection_age_grace: Duration::from_secs(60),
    ///     max_requests_per_connection: 10_000,
    ///     ..adieu::http::Limits::default()
    /// };
    /// # assert_ne!(limits, adieu::http::Limits::default());
    /// ```
    pub max_connection_age: Duration,
    /// How long a connection may go on with its requests after `max_connection_age`. What is still under way then is
    /// cut as at the end of a drain; a WebSocket gets a close frame. Off, which is to wait for every request:
    /// [`Duration::MAX`].
    pub max_connection_age_grace: Duration,
    /// Requests on one connection. The response to the last one says `Connection: close`; one later, if the client has sent
    /// more requests already. An HTTP/2 client gets a GOAWAY with the last one, and its streams finish. Off:
    /// [`u32::MAX`].
    pub max_requests_per_connection: u32,

    /// In a stop: how long a connection that is idle may still send a request and get its answer. Not after
    /// Ctrl-C in a terminal. 500 ms.
    pub linger: Duration,
    /// In a stop: after the linger, for half a head, half a handshake, or a peer that ignores our goodbye. 1 s.
    pub patience: Duration,
    /// In a stop: the limit of `stall`, for a client that must send or take more of a request or a response. 2 s.
    pub stall_in_stop: Duration,
    /// At the end of the drain, or of `max_connection_age_grace`: a request that is cut before its response began is answered with `503`, `Retry-After: 1`
    /// and `Connection: close`, and a call of gRPC with `UNAVAILABLE`. Without it the connection closes without a
    /// response. On.
    pub unavailable_at_deadline: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            head_size: 64 * 1_024,
            head_fields: 100,
            http2_head_size: 16 * 1_024,
            http2_streams: 100,
            stall: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            max_connection_age: Duration::MAX,
            max_connection_age_grace: Duration::MAX,
            max_requests_per_connection: u32::MAX,
            linger: Duration::from_millis(500),
            patience: Duration::from_secs(1),
            stall_in_stop: Duration::from_secs(2),
            unavailable_at_deadline: true,
        }
    }
}
