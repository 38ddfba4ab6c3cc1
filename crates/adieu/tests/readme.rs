//! The README's example: what stands between the lines is the README's text, word for word, and it runs.

/// Stands for the crate of this name, so that the example needs no database.
mod sqlx {
    #[derive(Clone)]
    pub(crate) struct PgPool;

    impl PgPool {
        pub(crate) async fn connect(_url: &str) -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn close(&self) {}
    }
}

async fn import_once(_db: &PgPool) -> std::io::Result<()> {
    Ok(())
}

// ---- README
use adieu::{App, Stop};
use sqlx::PgPool;
use std::time::Duration;

fn main() -> adieu::Report {
    adieu::service("orders")
        .grace(Duration::from_secs(25)) // the whole budget of a stop
        .run(setup) // owns runtime, signals, phases; the report is the exit code
}

async fn setup(app: &mut App) -> adieu::Result {
    let db = app
        .resource("postgres", PgPool::connect("postgres://localhost/orders"))
        .stop(|db| async move { db.close().await })
        .await?;
    app.task("importer", move |stop| import(db, stop));
    Ok(()) // running, ready
}

async fn import(db: PgPool, stop: Stop) -> adieu::Result {
    while stop.sleep(Duration::from_secs(10)).await {
        import_once(&db).await?; // finished before the pool closes
    }
    Ok(())
}
// ---- README

#[test]
fn the_readme_shows_this_code() {
    let shown = include_str!("../../../README.md")
        .split_once("```rust\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(code, _)| code);
    let compiled = include_str!("readme.rs").split("// ---- README\n").nth(1);
    assert_eq!(shown, compiled);
}

#[tokio::test(start_paused = true)]
async fn it_runs_and_stops_well() {
    let an_hour = tokio::time::sleep(Duration::from_secs(3600));
    let report = adieu::scope("orders").stop_when(an_hour).run(setup).await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let outcome = |name| report.part(name).map(|part| part.outcome);
    assert_eq!(outcome("postgres"), Some(adieu::Outcome::Closed));
    assert_eq!(outcome("importer"), Some(adieu::Outcome::Finished));
}
