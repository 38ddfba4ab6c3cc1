//! A worker that processes batches 1, 2, 3 and so on, each exactly once, in the order of their numbers.
//!
//! It says `resumed N` when it starts, with the number of the last batch that is done (0 on the first start), and
//! `processed N` when batch N is done and saved. Stop it with Ctrl-C, with SIGTERM or with SIGKILL, start it again:
//! the numbers go on where they were. What it knows is in `importer.json` in its directory, under `value`.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use adieu::App;
use adieu::state::{FileStore, Worker};
use clap::Parser;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// Processes numbered batches, one after the other, and goes on where it was.
#[derive(Parser)]
#[command(name = "example-worker")]
struct Flags {
    /// The directory that the state is kept in; made if there is none
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// How long one batch takes, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 100)]
    batch_ms: u64,
    /// The whole time a stop may take, like 20s
    #[arg(long, value_name = "D", value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
    /// How long to wait for another process to let go of the directory, as the one that hands over to this one
    /// (SIGUSR2) does; not at all if left out
    #[arg(long, value_name = "D", value_parser = adieu::parse_duration)]
    wait: Option<Duration>,
}

/// What survives.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cursor {
    processed_count: u64,
    last_id: u64,
}

fn main() -> adieu::Report {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // It would be told with eprintln!, which panics when no process reads it.
        .log_internal_errors(false)
        .init();
    let mut service = adieu::service("worker");
    if let Some(grace) = flags.grace {
        service = service.grace(grace);
    }
    #[cfg(unix)]
    {
        service = service.handoff();
    }
    service.run(async |app: &mut App| setup(app, flags).await)
}

async fn setup(app: &mut App, flags: Flags) -> adieu::Result {
    let store = match flags.wait {
        Some(patience) => {
            let opening = FileStore::open_when_free(flags.state, patience);
            app.store(opening).await?
        }
        None => app.store(FileStore::open(flags.state)).await?,
    };
    let time = Duration::from_millis(flags.batch_ms);
    app.worker("importer", store, move |worker| import(worker, time));
    Ok(())
}

async fn import(mut worker: Worker<Cursor>, time: Duration) -> adieu::Result {
    let mut cursor = worker.resume().await?.unwrap_or_default();
    say("resumed", cursor.last_id);
    // The one place to stop. A batch that was begun is finished.
    while let Some(id) = worker.until_stop(fetch(cursor.last_id)).await {
        process(id, time).await;
        cursor.processed_count += 1;
        cursor.last_id = id;
        worker.checkpoint(&cursor).await?;
        say("processed", id);
    }
    Ok(())
}

/// The next batch; here it is always there.
async fn fetch(after: u64) -> u64 {
    after + 1
}

async fn process(id: u64, time: Duration) {
    tracing::debug!(id, "batch begun");
    tokio::time::sleep(time).await;
}

/// At once, and not when some buffer is full. If no process reads it, the work goes on.
fn say(what: &str, id: u64) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{what} {id}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use adieu::testing::sweep;

    /// Stopped at any await point, the state is whole and counts what it has done.
    #[test]
    fn no_batch_is_lost_wherever_the_stop_comes() {
        let folder = tempfile::TempDir::new().expect("a directory");
        let state = folder.path().to_owned();
        let setup = async |app: &mut App| {
            let flags = Flags {
                state: state.clone(),
                batch_ms: 300,
                grace: None,
                wait: None,
            };
            setup(app, flags).await
        };
        let swept = sweep(setup).lasting(Duration::from_secs(1)).run();
        assert!(swept.is_complete());
        let text = std::fs::read(folder.path().join("importer.json")).expect("state");
        let found: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(found["value"]["processed_count"], found["value"]["last_id"]);
    }

    #[test]
    fn flags_are_read_or_refused() {
        let read = |words: &str| {
            Flags::try_parse_from(std::iter::once("x").chain(words.split_whitespace()))
        };
        assert!(read("--state a --batch-ms 0 --grace 1m30s --wait 1m").is_ok());
        for wrong in [
            "",
            "--state",
            "--state a --batch-ms -1",
            "--state a --grace soon",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
