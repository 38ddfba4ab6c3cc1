//! The README's second example: what stands between the lines is the README's text, word for word, and it compiles.
#![cfg(feature = "axum")]

// ---- README
use adieu::{App, Stop};
use axum::{Router, routing::get};
use std::time::Duration;

fn main() -> adieu::Report {
    adieu::service("shop").run(setup) // owns runtime and signals; the report is the exit code
}

async fn setup(app: &mut App) -> adieu::Result {
    let listener = app.listen("web", "0.0.0.0:8080").await?;
    app.http(listener, Router::new().route("/", get(async || "hello")));
    app.task("mailer", send_mails);
    Ok(()) // ready
}

async fn send_mails(stop: Stop) {
    while stop.sleep(Duration::from_secs(10)).await {
        // A mail that is being sent is finished before the process exits.
    }
}
// ---- README

#[test]
fn the_readme_shows_this_code() {
    let shown = include_str!("../../../README.md")
        .split("```rust\n")
        .nth(2)
        .and_then(|rest| rest.split_once("```"))
        .map(|(code, _)| code);
    let compiled = include_str!("readme.rs").split("// ---- README\n").nth(1);
    assert_eq!(shown, compiled);
}

/// Without the server, whose port may be taken on this machine.
#[tokio::test(start_paused = true)]
async fn its_task_stops_with_the_service() {
    // `setup` and `main` are the README's; they are compiled here and not called.
    let _ = (main as fn() -> adieu::Report, setup);
    let an_hour = tokio::time::sleep(Duration::from_secs(3600));
    let report = adieu::scope("shop")
        .stop_when(an_hour)
        .run(async |app| {
            app.task("mailer", send_mails);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(
        report.part("mailer").map(|part| part.outcome),
        Some(adieu::report::Outcome::Finished)
    );
}
