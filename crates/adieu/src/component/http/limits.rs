//! What a client may hold open, and for how long.

use std::time::Duration;

/// Limits of an HTTP server. All are on by default; the first group protects the running server, the second
/// the stop.
///
/// ```
/// # use std::time::Duration;
/// let limits = adieu::Limits { keep_alive: Duration::from_secs(15), ..adieu::Limits::default() };
/// assert_eq!(limits.linger, Duration::from_millis(500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue until one ends. 16,384.
    pub connections: usize,
    /// From the accept to the end of the TLS handshake. 10 s.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head. 30 s.
    pub head: Duration,
    /// The largest request head, in bytes; a larger one is answered with 431. 64 KiB.
    pub head_size: usize,
    /// Without a byte from or to the client while a request or an answer is under way that it must send or take more
    /// of, or after it has closed its side. 60 s.
    pub stall: Duration,
    /// An idle or silent connection. 75 s.
    pub keep_alive: Duration,

    /// In a stop: how long a connection that is idle may still send a request and get its answer. Not after
    /// Ctrl-C in a terminal. 500 ms.
    pub linger: Duration,
    /// In a stop: after the linger, for half a head, half a handshake, or a peer that ignores our goodbye. 1 s.
    pub patience: Duration,
    /// In a stop: the same. 2 s.
    pub stall_in_stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            head_size: 64 * 1_024,
            stall: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            linger: Duration::from_millis(500),
            patience: Duration::from_secs(1),
            stall_in_stop: Duration::from_secs(2),
        }
    }
}
