//! Clients with a connection for each request, across the signal.

use adieu_load::Mode;

use super::{Spec, Trying, race};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "fresh-connections",
    group: Group::KeepAlive,
    quick: true,
    why: "Closing a listener resets every connection in its accept queue: connections that were made, with requests that were \
          sent.",
    how: "As keepalive-race, with a connection for each request.",
    applies: "Programs that speak HTTP, or send every line back.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "accept until the queue is empty before closing the listener; a lame duck alone does not mend it",
        ),
        (
            "axum / hyper",
            "`axum::serve` stops accepting and closes: adieu's `app.listen` empties the queue first",
        ),
        (
            "any, unchanged",
            "no setting of Go, Node, uvicorn or gunicorn does it: start it with `adieu run -- …`, which refuses new connections and drains the \
             accept queue before the program gets the signal; or hold the socket in systemd (socket activation)",
        ),
    ],
    run: |cx| Box::pin(race::stops(cx, Mode::Fresh)) as Trying<'_>,
};
