//! Slow requests are answered when the stop signal comes; one that never ends has a timeout of its own.

use std::time::Duration;

use adieu::Drained;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let router = Router::new()
        .route("/", get(async || "hello\n"))
        .route(
            "/slow",
            get(async || {
                sleep(Duration::from_secs(1)).await;
                "done\n"
            }),
        )
        .route("/forever", get(std::future::pending::<()>))
        .layer(middleware::from_fn(within_ten_seconds));
    Ok(adieu::serve(example_from_axum::bind().await?, router).await?)
}

async fn within_ten_seconds(request: Request, next: Next) -> Response {
    timeout(Duration::from_secs(10), next.run(request))
        .await
        .unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}
