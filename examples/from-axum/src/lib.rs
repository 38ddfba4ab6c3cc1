//! What the programs here have in common. Each of them does what the example of its name in axum's repository does.

use tokio::net::TcpListener;

/// Binds the address that the first argument says.
///
/// # Errors
/// If it cannot be bound.
pub async fn bind() -> std::io::Result<TcpListener> {
    let address = std::env::args().nth(1);
    TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000")).await
}
