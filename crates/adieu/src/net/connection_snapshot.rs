//! What a connection takes along to the new process, beside its socket.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The most bytes of a program's state.
pub(super) const MAX_STATE: usize = 64 * 1_024;

/// The state of a handler: what it is, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawState {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The request by which a connection has become a WebSocket, or which a stream of events answers: it says which route of the
/// new process takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedRequest {
    pub(crate) target: String,
    /// Each byte of a value is a character of its own: values need not be UTF-8.
    pub(crate) headers: Vec<(String, String)>,
    /// The subprotocol that was agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
}

/// All of a connection but its socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionSnapshot {
    pub(crate) counters: CarriedCounters,
    /// The client's address, if it has one.
    pub(crate) peer: Option<SocketAddr>,
    /// Of a WebSocket or a stream of events only.
    pub(crate) request: Option<CarriedRequest>,
    /// The response to that request has begun, and the last event of it is out.
    pub(crate) is_event_stream: bool,
    /// Read from the socket, and seen by no handler.
    pub(crate) unread: Vec<u8>,
    pub(crate) state: Option<RawState>,
}

impl ConnectionSnapshot {
    /// In the middle of a response to this request, whose handler has left this state.
    #[cfg(feature = "axum")]
    pub(crate) fn in_events(mut self, (request, state): (CarriedRequest, RawState)) -> Self {
        self.request = Some(request);
        self.is_event_stream = true;
        self.state = Some(state);
        // The request is counted again where its route sees it again.
        self.counters.served = self.counters.served.saturating_sub(1);
        self
    }

    /// The request apart, if its response is a stream of events that has begun.
    #[cfg(feature = "axum")]
    pub(crate) fn split_events(mut self) -> (Self, Option<CarriedRequest>) {
        let request = self.request.take_if(|_| self.is_event_stream);
        (self, request)
    }
}

/// How long a connection has been there, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CarriedCounters {
    /// Requests.
    pub(crate) served: u32,
    /// Since its accept.
    pub(crate) age_ms: u64,
    /// Since its last byte.
    pub(crate) idle_ms: u64,
    /// Since the first byte of the half head in `unread`.
    pub(crate) head_ms: u64,
}
