//! Clients that reuse their connections, across the signal.

use adieu_load::Mode;

use super::{Spec, Trying, race};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "keepalive-race",
    group: Group::KeepAlive,
    quick: true,
    why: "A server that closes a kept connection while a request is on its way to it loses that request.",
    how: "Clients send request after request on connections they keep, as a pool does, while the signal comes. Every \
          request that was sent whole on an open connection must get a whole answer; a refusal, or a 408 in the \
          place of an answer, is no loss; an answer that blames the server (5xx, 503 too) is a failure.",
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
            "closes idle connections at once; put a lame duck before it (`--readiness` off, wait, then SIGTERM)",
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
    run: |stage| Box::pin(race::stops(stage, Mode::KeepAlive)) as Trying<'_>,
};
