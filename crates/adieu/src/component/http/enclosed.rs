//! What every request carries for its handler, among its extensions.

use std::sync::Arc;

use http::Extensions;

use crate::core::Core;
use crate::stop::Stop;

/// Made once for a server, copied for each request. With room for what routers add: a map that has to grow is made
/// twice, and that for every request.
pub(super) struct Enclosed {
    extensions: Extensions,
    stop: Stop,
}

/// Stands for an extension of somebody else's.
#[derive(Clone)]
struct Room<const NUMBER: u8>;

impl Enclosed {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let stop = Stop::new(Arc::clone(core));
        let mut extensions = Extensions::new();
        extensions.insert(stop.clone());
        // axum adds the matched path, its parameters and the original URI. The room stays when they go.
        extensions.insert(Room::<1>);
        extensions.insert(Room::<2>);
        extensions.insert(Room::<3>);
        extensions.remove::<Room<1>>();
        extensions.remove::<Room<2>>();
        extensions.remove::<Room<3>>();
        Self { extensions, stop }
    }

    pub(super) fn enclose(&self, request: &mut Extensions) {
        if request.is_empty() {
            *request = self.extensions.clone();
        } else {
            // The protocol has put something in, an upgrade say.
            request.insert(self.stop.clone());
        }
    }
}
