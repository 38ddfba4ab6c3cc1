//! What every request carries for its handler, among its extensions.

use std::sync::Arc;

use http::Extensions;

use super::facts::Facts;
use crate::stop::Stop;

/// Made once for a connection, copied for each request. With room for what routers add: a map that has to grow is made
/// twice, and that for every request.
pub(super) struct Enclosed {
    extensions: Extensions,
    enclosure: Enclosure,
}

/// The way to the service. By the connection and not by the service itself: its count of owners is the one place in
/// memory that the threads of a busy server would all write to.
#[derive(Clone)]
pub(crate) struct Enclosure(Arc<Facts>);

impl Enclosure {
    pub(crate) fn stop(&self) -> Stop {
        Stop::new(Arc::clone(&self.0.server.core))
    }
}

/// Stands for an extension of somebody else's.
#[derive(Clone)]
struct Room<const NUMBER: u8>;

impl Enclosed {
    pub(super) fn new(facts: &Arc<Facts>) -> Self {
        let enclosure = Enclosure(Arc::clone(facts));
        let mut extensions = Extensions::new();
        extensions.insert(enclosure.clone());
        // axum adds the matched path, its parameters and the original URI. The room stays when they go.
        extensions.insert(Room::<1>);
        extensions.insert(Room::<2>);
        extensions.insert(Room::<3>);
        extensions.remove::<Room<1>>();
        extensions.remove::<Room<2>>();
        extensions.remove::<Room<3>>();
        Self {
            extensions,
            enclosure,
        }
    }

    pub(super) fn enclose(&self, request: &mut Extensions) {
        if request.is_empty() {
            *request = self.extensions.clone();
        } else {
            // The protocol has put something in, an upgrade say.
            request.insert(self.enclosure.clone());
        }
    }
}
