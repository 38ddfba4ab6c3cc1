//! Clients that reuse their connections, across the signal.

use adieu_load::Mode;

use super::{Spec, Trying, race};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "keepalive-race",
    group: Group::KeepAlive,
    quick: true,
    why: "A server that closes a keep-alive connection while a request is on its way to it loses that request.",
    how: "Clients send request after request on connections they keep, as a pool does, while the signal comes. Every \
          request that was sent whole on an open connection must get a whole answer; a refusal, or a 408 in the \
          place of an answer, is not a loss; an answer that blames the server (5xx, 503 too) is a failure. Such a race is lost \
          now and then: up to 5 stops at the quick level, 8 without it, 20 with --full, until the first that loses; the \
          report says what so many stops exclude.",
    applies: "Programs that speak HTTP and keep connections, or send every line back.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "announce with `Connection: close` first, close only after an answer that had it, and look whether a \
                 request is already there before closing an idle connection",
        ),
        (
            "axum / hyper",
            "hyper's `graceful_shutdown` closes idle connections without looking: adieu's `app.http` \
                          announces, lingers and looks",
        ),
        (
            "uvicorn",
            "closes keep-alive connections at once, and no setting changes that, nor does a wait before the signal: let the proxy \
             in front repeat a request on a connection that was closed before a byte of the answer, or turn keep-alive \
             off between the two",
        ),
        (
            "Go",
            "`server.Shutdown` closes idle connections at once: `SetKeepAlivesEnabled(false)` some seconds before",
        ),
        (
            "Node",
            "send `Connection: close` on every answer from the signal on, and call `server.close()` a little later",
        ),
    ],
    run: |cx| Box::pin(race::stops(cx, Mode::KeepAlive)) as Trying<'_>,
};
