//! What a client may hold open, and for how long.

use std::time::Duration;

/// The type, its defaults, and a method for each field that sets it.
macro_rules! limits {
    (
        $(#[$of_type:meta])*
        struct Limits;
        $($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*
    ) => {
        $(#[$of_type])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Limits {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $name(mut self, $name: $type) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

limits! {
    /// Limits of an HTTP server. The first group protects the running server, the second the stop. What is off by default
    /// says so.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use adieu::http::Limits;
    ///
    /// let limits = Limits::default()
    ///     .keep_alive(Duration::from_secs(15))
    ///     .max_connection_age(Duration::from_secs(300))
    ///     .max_connection_age_grace(Duration::from_secs(60));
    /// assert_eq!(limits.linger, Duration::from_millis(500));
    /// ```
    struct Limits;

    /// Connections at a time. For a client beyond it the connection that has been idle for the longest is closed; if
    /// none is idle, it waits until one is, or ends. 16,384, or seven eighths of the file descriptors that are free when
    /// the service begins to listen, if that is less.
    connections: usize = 16_384;
    /// From the accept to the end of the PROXY header, if there is to be one, and of the TLS handshake. 10 s.
    handshake: Duration = Duration::from_secs(10);
    /// From the first byte of a request to the end of its head, however many bytes of it come; also for the first byte of
    /// the first request. 30 s.
    head: Duration = Duration::from_secs(30);
    /// The largest request head of HTTP/1, in bytes; a larger one is answered with 431. 64 KiB.
    head_size: usize = 64 * 1_024;
    /// The most header fields of a request; more are answered with 431. All cookies of an HTTP/2 request count as one. 100.
    head_fields: usize = 100;
    /// The largest request head of HTTP/2, as that counts it: names and values, not compressed, and 32 bytes for each
    /// field. A larger one is answered with 431. 16 KiB.
    http2_head_size: u32 = 16 * 1_024;
    /// Requests at a time on one HTTP/2 connection; sent to the client as SETTINGS_MAX_CONCURRENT_STREAMS. 100.
    http2_streams: u32 = 100;
    /// The window of an HTTP/2 stream: how many bytes of a request body its client may send ahead of the handler that reads
    /// it. 1 MiB; 2 GiB at most.
    http2_stream_window: u32 = 1_024 * 1_024;
    /// The window for all streams of an HTTP/2 connection together; at least 64 KiB. 1 MiB.
    http2_connection_window: u32 = 1_024 * 1_024;
    /// Whether clients may open WebSockets over HTTP/2, one for each stream (extended CONNECT, RFC 8441). Off.
    http2_extended_connect: bool = false;
    /// How often the client of an HTTP/2 connection is asked whether it is still there, with a PING. A client that answers
    /// is not idle for `keep_alive`. Off: [`Duration::MAX`].
    http2_ping_interval: Duration = Duration::MAX;
    /// How long it may take for its answer to a PING before the connection is closed. 20 s.
    http2_ping_timeout: Duration = Duration::from_secs(20);
    /// How long a client may neither send nor take a byte of a request or a response that is not complete, or keep the
    /// connection after it has closed its side. 60 s.
    stall: Duration = Duration::from_secs(60);
    /// From the head of a request to the head of its response: what the handler has to begin its response, the time for
    /// the body included. Then the handler is dropped, and the client gets a `503`; that of a gRPC call, `DEADLINE_EXCEEDED`.
    /// Off: [`Duration::MAX`].
    handler: Duration = Duration::MAX;
    /// Whether a gRPC call also ends at the deadline that its client has sent as `grpc-timeout`, as under tonic's own server:
    /// with `DEADLINE_EXCEEDED`, if its response has not begun. On.
    grpc_timeout: bool = true;
    /// How long a connection may be idle. 75 s.
    keep_alive: Duration = Duration::from_secs(75);
    /// The age of a connection, from its accept, at which its client is asked to connect again, so that long connections
    /// spread over new replicas: the next response of HTTP/1 says `Connection: close`, an HTTP/2 client gets a GOAWAY and
    /// its streams finish, and an idle connection is closed once it was quiet for `linger`. Each connection has up to a
    /// tenth more or less, so that those opened together do not end together. Off: [`Duration::MAX`].
    max_connection_age: Duration = Duration::MAX;
    /// How long a connection may go on with its requests after `max_connection_age`. Requests still in flight then are
    /// cut as at the end of a drain; a WebSocket gets a close frame. Off, which is to wait for every request:
    /// [`Duration::MAX`].
    max_connection_age_grace: Duration = Duration::MAX;
    /// Requests on one connection. The response to the last one says `Connection: close`; one later, if the client has sent
    /// more requests already. An HTTP/2 client gets a GOAWAY with the last one, and its streams finish. Off:
    /// [`u32::MAX`].
    max_requests_per_connection: u32 = u32::MAX;

    /// In a stop: over which time the clients of connections are asked to go elsewhere, evenly one after the other, so that they do not
    /// all connect to the other replicas in the same moment. From the beginning of the lame-duck period, and at most as long as
    /// that lasts: then all others are asked. WebSockets and event streams, which otherwise end with that period, end within it. Off:
    /// [`Duration::ZERO`].
    spread: Duration = Duration::ZERO;
    /// In a stop: how long a connection that is idle may still send a request and get its answer. Not after
    /// Ctrl-C in a terminal. 500 ms.
    linger: Duration = Duration::from_millis(500);
    /// In a stop: after the linger, for half a head, half a handshake, or a peer that ignores our goodbye. 1 s.
    patience: Duration = Duration::from_secs(1);
    /// In a stop: the limit of `stall`, for a client that must send or take more of a request or a response. 2 s.
    stall_in_stop: Duration = Duration::from_secs(2);
    /// At the end of the drain, or of `max_connection_age_grace`: a request that is cut before its response began is
    /// answered with `503`, `Retry-After: 1` and `Connection: close`, and a call of gRPC with `UNAVAILABLE`. Without it
    /// the connection closes without a response. On.
    unavailable_at_deadline: bool = true;
}
