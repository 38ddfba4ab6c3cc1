//! Orders over HTTP, kept in a database. What is being written when the stop comes is written; then the client
//! closes, then the pool. A connection that a handler never gives back cannot hold the exit.
//!
//! ```text
//! example-orders &
//! curl -X POST localhost:8080/orders -d '{"item":"tea"}' -H 'content-type: application/json'
//! curl localhost:8080/orders
//! curl localhost:9100/health
//! kill %1
//! ```

mod api;
mod database;
mod store;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use adieu::App;
use clap::Parser;
use tracing::info;

use crate::api::Shop;
use crate::store::Store;

/// Takes orders over HTTP, and loses none when it stops.
#[derive(Parser)]
struct Options {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Where to answer for health and metrics
    #[arg(long, default_value = "127.0.0.1:9100")]
    admin: String,
    /// Where the orders are, as in sqlite://orders.db, sqlite::memory: or postgres://localhost/orders
    #[arg(long, env = "DATABASE_URL", default_value = "sqlite://orders.db")]
    database: String,
    /// Whom to tell of every order: it is posted there as JSON
    #[arg(long)]
    notify: Option<String>,
    /// How long a stop may take, as in 500ms or 10s
    #[arg(long, value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
    /// Where to write the report of the stop, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

fn main() -> adieu::Report {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // tracing would report it with eprintln!, which panics if standard error is closed.
        .log_internal_errors(false)
        .init();
    let mut service = adieu::service("orders");
    if let Some(grace) = options.grace {
        service = service.grace(grace);
    }
    if let Some(path) = &options.report {
        service = service.report_file(path);
    }
    service.run(async |app: &mut App| setup(app, options).await)
}

/// Program order is start order. The stop mirrors it: first the requests in flight finish, then the client closes,
/// then the pool. The admin port answers all the while.
async fn setup(app: &mut App, options: Options) -> adieu::Result {
    let admin = app.admin(&options.admin).await?;
    if let Some(address) = admin.local_addr() {
        let _ = writeln!(io::stdout(), "admin on {address}");
    }

    let store = app
        .resource("pool", Store::open(options.database))
        .stop(|store| async move { store.close().await })
        .limit(Duration::from_secs(2))
        .await?;
    let client = app.resource("client", async { open_client() }).await?;

    let checked = store.clone();
    app.check("pool", move || {
        let store = checked.clone();
        async move { store.ping().await }
    });
    app.on_shutdown("farewell", || async {
        info!("stopping: no new orders soon")
    });
    let counted = store.clone();
    app.on_cleanup("tally", move || async move {
        info!("drained: {} orders in all", counted.count().await?);
        Ok::<_, sqlx::Error>(())
    });
    app.on_exit("lights", || async { info!("closed: good night") });

    let listener = app.listen("api", options.listen).await?;
    let listener = listener.on_listening(|address| {
        // Not println!, which panics if standard output is closed.
        let _ = writeln!(io::stdout(), "listening on {address}");
    });
    let shop = Shop {
        store,
        client,
        notify: options.notify,
    };
    app.http(listener, api::router(shop));
    Ok(())
}

/// One client for the whole program: it keeps its connections and reuses them.
fn open_client() -> reqwest::Result<reqwest::Client> {
    // An error says that a provider was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(Duration::from_secs(2))
        .build()
}
