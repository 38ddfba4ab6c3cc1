//! Server-sent events, one a second to each client. At a stop the server ends each stream between two events.

use std::convert::Infallible;
use std::time::Duration;

use adieu::Drained;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::{Router, routing::get};
use futures_util::stream::{self, Stream};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let router = Router::new()
        .route("/", get(async || "see /sse\n"))
        .route("/sse", get(events));
    Ok(adieu::serve(example_from_axum::bind().await?, router).await?)
}

async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = stream::unfold(0, async |count| {
        if count > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        Some((Ok(Event::default().data(count.to_string())), count + 1))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
