//! An axum program on adieu. Where `axum::serve(listener, router)` stood is the one line that differs, and `main` gives
//! back what it gives.

use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<adieu::Drained, adieu::BoxError> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:8080");
    let router = Router::new().route("/", get(async || "Hello, World!\n"));
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(adieu::serve(listener, router).await?)
}
