//! What the client has taken of what was written to it, and whether it is there at all: asked of the kernel.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Context;

use super::close_policy::{ConnState, Protocol};
use super::conn_state::{ConnShared, now_ms};

/// More than TLS adds to one write.
const RECORD: u32 = 64;

impl ConnShared {
    pub(super) fn cannot_write(&self) {
        if self.counters.cannot_write() {
            self.refresh_unacknowledged();
        }
    }

    /// An HTTP/2 connection was written to: so many bytes of talk, or an answer.
    pub(super) fn count_control_bytes(&self, control_bytes: Option<usize>) {
        let control_bytes = control_bytes.map_or(0, |bytes| {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let before = self.control_bytes.load(Relaxed);
            before.saturating_add(bytes).saturating_add(RECORD)
        });
        self.control_bytes.store(control_bytes, Relaxed);
    }

    /// Whether the client has taken any of the answers that the kernel holds for it since the last look: room for more
    /// is only told of when there is a lot of it, and a slow reader is not one that stopped.
    pub(super) fn refresh_unacknowledged(&self) -> bool {
        let now = self.socket.unacknowledged();
        let before = self.unacknowledged.swap(now, Relaxed);
        let control_bytes = self.control_bytes.load(Relaxed);
        // The protocol is done with the last of its answers long before a client on a slow line is.
        self.counters.is_untaken(now > control_bytes);
        now < before && before > control_bytes
    }

    /// Whether the client of an HTTP/1 request in flight has gone for good. One that has only closed its side may still
    /// want the answer, and has its time: hyper would not notice, since it does not read meanwhile.
    pub(super) fn client_is_gone(&self, cx: &mut Context<'_>) -> bool {
        let is_at_work = matches!(
            self.counters.state(),
            ConnState::Working | ConnState::HalfClosed
        );
        if !is_at_work || self.counters.protocol() != Protocol::Http1 {
            return false;
        }
        let (has_closed, is_gone) = self.socket.peer_hangup(cx);
        if has_closed {
            self.counters.half_closed(now_ms());
        }
        is_gone
    }
}
