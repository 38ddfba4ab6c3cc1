//! What every request carries for its handler, among its extensions.

use std::sync::Arc;

use http::Extensions;

use super::conn_state::ConnShared;
use super::peer::Peer;

/// Made once for a connection, copied for each request. With room for what routers add: a map that has to grow is made
/// twice, and that for every request.
pub(super) struct RequestExtensions {
    extensions: Extensions,
    #[cfg(feature = "tonic")]
    grpc: Option<super::peer::GrpcPeer>,
}

/// Reserves a place for an extension that a router adds.
#[derive(Clone)]
struct Reserved<const NUMBER: u8>;

impl RequestExtensions {
    /// Of a connection whose handshake is over: from here on it is known who the client is.
    pub(super) fn new(shared: &Arc<ConnShared>) -> Self {
        let peer = Peer::of_connection(Arc::clone(shared));
        let mut extensions = Extensions::new();
        #[cfg(feature = "axum")]
        if let Some(address) = peer.addr() {
            extensions.insert(axum::extract::ConnectInfo(address));
        }
        #[cfg(feature = "tonic")]
        let grpc = super::peer::GrpcPeer::of(&peer);
        extensions.insert(peer);
        // axum adds the matched path, its parameters and the original URI. The room stays when they go.
        extensions.insert(Reserved::<1>);
        extensions.insert(Reserved::<2>);
        extensions.insert(Reserved::<3>);
        extensions.remove::<Reserved<1>>();
        extensions.remove::<Reserved<2>>();
        extensions.remove::<Reserved<3>>();
        Self {
            extensions,
            #[cfg(feature = "tonic")]
            grpc,
        }
    }

    pub(super) fn attach(&self, request: &mut Extensions) {
        if request.is_empty() {
            *request = self.extensions.clone();
        } else {
            // The protocol has put something in, an upgrade say.
            request.extend(self.extensions.clone());
        }
    }

    /// What tonic looks for, in calls of gRPC only: it costs every request an allocation.
    #[cfg(feature = "tonic")]
    pub(super) fn attach_for_grpc(&self, request: &mut Extensions) {
        if let Some(grpc) = &self.grpc {
            grpc.insert_into(request);
        }
    }
}
