//! Clients with a connection for each request, across the signal.

use adieu_load::Mode;

use super::{Spec, Trying, race};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "fresh-connections",
    group: Group::KeepAlive,
    quick: true,
    why: "A listener that is closed resets whoever is in its queue: connections that were made, with requests that were \
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
            "no setting of Go, Node, uvicorn or gunicorn does it: start it with `adieu run -- …`, which hides the listener and lets the queue \
             empty before the program hears of the stop; or hold the socket in systemd (socket activation)",
        ),
    ],
    run: |cx| Box::pin(race::stops(cx, Mode::Fresh)) as Trying<'_>,
};
