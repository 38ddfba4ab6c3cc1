//! A Telegram-style bot: it sends every message back.
//!
//! `getUpdates` is a long poll with an offset. The offset is on disk, and moves only after a message was answered, so
//! a bot that is stopped in the middle of a busy chat loses nothing and repeats nothing.

mod api;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adieu::App;
use adieu::state::FileStore;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tokio::task::spawn_blocking;
use tracing_subscriber::EnvFilter;

use crate::api::{Address, Api, Message};

/// Echoes every message.
#[derive(Parser)]
struct Options {
    /// The API with its token, as in `https://api.telegram.org/bot<TOKEN>`
    // From the environment, so that it is in no list of processes.
    #[arg(long, value_name = "URL", env = "BOT_API", hide_env_values = true)]
    api: String,
    /// The directory that keeps the offset; made if there is none
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// How long the API may hold a poll, in seconds
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=600))]
    poll_seconds: u64,
    /// Where to answer for health and metrics, as in 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// How long a stop may take, as in 200ms or 2s
    #[arg(long, value_name = "D", value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
    /// Where to write the report of the stop, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn main() -> adieu::Report {
    let options = Options::parse();
    let Some(address) = Address::read(&options.api) else {
        // Not by a parser of clap's, which would quote the token.
        let wrong = "--api is not an address like https://api.telegram.org/bot<TOKEN>";
        let error = Options::command().error(ErrorKind::ValueValidation, wrong);
        error.exit();
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // It would be told with eprintln!, which panics when no process reads it.
        .log_internal_errors(false)
        .init();
    let mut service = adieu::service("bot");
    if let Some(grace) = options.grace {
        service = service.grace(grace);
    }
    if let Some(path) = &options.report {
        service = service.report_file(path);
    }
    service.run(async move |app: &mut App| setup(app, options, address).await)
}

async fn setup(app: &mut App, options: Options, address: Address) -> adieu::Result {
    if let Some(address) = options.admin {
        let admin = app.admin(address).await?;
        if let Some(address) = admin.local_addr() {
            let _ = writeln!(io::stdout(), "admin on {address}");
        }
    }
    let store = app.store(FileStore::open(options.state)).await?;
    let seconds = options.poll_seconds;
    let api = spawn_blocking(move || Api::new(address, seconds)).await??;
    let poll = Arc::new(api);
    let answer = Arc::clone(&poll);
    app.poller(
        "updates",
        store.state("offset"),
        move |offset: Option<i64>| {
            let api = Arc::clone(&poll);
            async move { api.updates(offset).await }
        },
        move |(id, message): (i64, Option<Message>)| {
            let api = Arc::clone(&answer);
            async move {
                // A message without text is confirmed, and not answered.
                if let Some(message) = message.filter(|message| message.text.is_some()) {
                    api.echo(&message).await?;
                }
                say(&format!("handled {id}"))?;
                Ok::<_, adieu::BoxError>(())
            }
        },
    )
    // The API's own waiting, and then some.
    .poll_limit(Duration::from_secs(seconds + 30));
    say("ready")?;
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
