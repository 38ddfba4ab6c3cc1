//! The README's first example: what stands between the lines is the README's text, word for word, and it compiles.
#![cfg(feature = "axum")]

// ---- README
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> adieu::Result {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
    let router = Router::new().route("/", get(async || "hello"));
    adieu::serve(listener, router).await?; // was: axum::serve(listener, router).await?
    Ok(())
}
// ---- README

#[test]
fn the_readme_shows_this_code() {
    let shown = include_str!("../../../README.md")
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split_once("```"))
        .map(|(code, _)| code);
    let compiled = include_str!("readme_serve.rs")
        .split("// ---- README\n")
        .nth(1);
    assert_eq!(shown, compiled);
}
