//! HTTPS, with the certificate and the key in the PEM files that the second and the third argument name.

use adieu::Drained;
use adieu::http::Peer;
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let files: Vec<_> = std::env::args().skip(2).collect();
    let [certificate, key] =
        <[_; 2]>::try_from(files).map_err(|_| "usage: tls-rustls ADDRESS CERTIFICATE KEY")?;
    let router = Router::new().route("/", get(hello));
    Ok(adieu::serve(example_from_axum::bind().await?, router)
        .tls(certificate, key)
        .await?)
}

async fn hello(peer: Peer) -> String {
    let version = peer.tls().and_then(|tls| tls.version());
    format!("hello over {}\n", version.unwrap_or("nothing"))
}
