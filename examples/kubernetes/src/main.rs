//! A service for Kubernetes: the port of the service, and one for probes.

use adieu::App;
use axum::{Router, routing::get};

async fn setup(app: &mut App) -> adieu::Result {
    app.admin("0.0.0.0:9100").exposed().await?; // first: probes are answered while the service starts
    let listener = app.listen("web", "0.0.0.0:8080").await?;
    app.http(listener, Router::new().route("/", get(async || "hello")));
    Ok(())
}

fn main() -> adieu::Report {
    adieu::service("shop").run(setup)
}
