//! A WebSocket that echoes, and says at its beginning where the client comes from. At a stop every client gets the close
//! code 1001, without a word about it here.

use std::net::SocketAddr;

use adieu::Drained;
use axum::extract::ConnectInfo;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<Drained, adieu::BoxError> {
    let router = Router::new()
        .route("/", get(async || "see /ws\n"))
        .route("/ws", get(upgrade));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(adieu::serve(example_from_axum::bind().await?, service).await?)
}

async fn upgrade(upgrade: WebSocketUpgrade, from: ConnectInfo<SocketAddr>) -> Response {
    upgrade.on_upgrade(async move |socket| drop(echo(socket, from.0).await))
}

async fn echo(mut socket: WebSocket, from: SocketAddr) -> Result<(), axum::Error> {
    socket.send(Message::text(format!("hello {from}"))).await?;
    while let Some(message) = socket.recv().await {
        match message? {
            text @ (Message::Text(_) | Message::Binary(_)) => socket.send(text).await?,
            Message::Close(_) => break,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
    Ok(())
}
