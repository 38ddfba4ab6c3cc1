//! A service inside `#[tokio::main]`: a resource, a task and a server, an admin port, and the whole stop around them.
//!
//! Orders go to a mailer through a channel. At a stop the server ends first, the mailer sends what is left, and the
//! outbox is closed after both.

use std::sync::Arc;

use adieu::{App, Stop};
use axum::{Router, extract::State, http::StatusCode, routing::post};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> adieu::Report {
    adieu::service("shop").run_in_place(setup).await
}

async fn setup(app: &mut App) -> adieu::Result {
    let mut addresses = std::env::args().skip(1);
    let address = addresses.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let admin = addresses.next().unwrap_or_else(|| "127.0.0.1:9100".into());
    app.admin(admin).await?;
    let outbox = app
        .resource("outbox", Outbox::open())
        .stop(|outbox| async move { outbox.close() })
        .await?;
    let (orders, waiting) = mpsc::channel(100);
    app.task("mailer", |stop| send_mails(waiting, outbox, stop));
    let listener = app.listen("web", address).await?;
    let router = Router::new().route("/", post(order).get(async || "the shop is open\n"));
    app.http(listener, router.with_state(orders));
    Ok(())
}

async fn order(State(orders): State<mpsc::Sender<String>>, order: String) -> StatusCode {
    match orders.send(order).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The channel ends when the router has gone with its last connection, so every order that was accepted is mailed.
async fn send_mails(mut waiting: mpsc::Receiver<String>, outbox: Arc<Outbox>, stop: Stop) {
    let mut mailed = 0;
    while let Some(order) = waiting.recv().await {
        outbox.mail(&order);
        mailed += 1;
    }
    stop.note(format!("{mailed} orders mailed"));
}

struct Outbox;

impl Outbox {
    async fn open() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self))
    }

    fn mail(&self, _order: &str) {}

    fn close(&self) {}
}
