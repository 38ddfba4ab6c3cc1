//! Says where the client comes from: as an address, and as a type of the program's own.

use std::net::SocketAddr;

use adieu::Drained;
use adieu::http::Peer;
use axum::extract::ConnectInfo;
use axum::extract::connect_info::Connected;
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let router = Router::new()
        .route("/", get(address))
        .route("/origin", get(origin));
    let service = router.into_make_service_with_connect_info::<Origin>();
    Ok(adieu::serve(example_from_axum::bind().await?, service).await?)
}

async fn address(ConnectInfo(address): ConnectInfo<SocketAddr>) -> String {
    format!("hello {}\n", address.ip())
}

async fn origin(ConnectInfo(origin): ConnectInfo<Origin>) -> String {
    let whence = if origin.is_local { "here" } else { "elsewhere" };
    format!("hello from {whence}\n")
}

#[derive(Clone)]
struct Origin {
    is_local: bool,
}

impl Connected<Peer> for Origin {
    fn connect_info(peer: Peer) -> Self {
        let ip = peer.addr().map(|address| address.ip());
        Self {
            is_local: ip.is_some_and(|ip| ip.is_loopback()),
        }
    }
}
