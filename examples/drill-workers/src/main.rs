//! A worker on a queue of adieu, drilled with numbered jobs like those of other libraries beside it.
//!
//! `example-drill-workers work` does jobs until it is stopped; `example-drill-workers 1 10` enqueues ten. `QUEUE` is the address
//! of the server: `nats://`, `postgres://` or `redis://`. `LEASE`, `JOB_SECONDS` and `LEDGER` are as for the other adapters.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adieu::queue::{Job, NatsQueue, PostgresQueue, Queue, QueueError, RedisQueue};
use adieu::{App, BoxError};
use tracing_subscriber::filter::LevelFilter;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(LevelFilter::WARN)
        .init();
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["work"] => adieu::service("worker").run(work).report(),
        [first, last] => match enqueue(first, last) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("example-drill-workers: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: example-drill-workers work | FIRST LAST");
            ExitCode::from(2)
        }
    }
}

async fn work(app: &mut App) -> adieu::Result {
    let url = variable("QUEUE")?;
    match engine(&url) {
        "nats" => {
            let queue = NatsQueue::create(&url, "jobs").await?;
            consume(app, queue.lease_of(lease()?).await?)
        }
        "redis" => consume(
            app,
            RedisQueue::create(&url, "jobs").await?.lease_of(lease()?),
        ),
        _ => consume(
            app,
            PostgresQueue::create(&url, "jobs")
                .await?
                .lease_of(lease()?),
        ),
    }
}

fn consume(app: &mut App, queue: impl Queue) -> adieu::Result {
    let path = variable("LEDGER")?;
    // One write a line, at the end of the file: workers do not tear each other's lines.
    let ledger = OpenOptions::new().append(true).create(true).open(path)?;
    let ledger = Arc::new(ledger);
    let time = seconds("JOB_SECONDS", 0.05)?;
    app.consume("jobs", queue, move |job: Job| {
        let ledger = Arc::clone(&ledger);
        async move {
            note(&ledger, &job.text(), "start")?;
            tokio::time::sleep(time).await;
            note(&ledger, &job.text(), "done")?;
            Ok::<_, BoxError>(())
        }
    })
    .concurrency(1);
    Ok(())
}

fn note(mut ledger: &File, job: &str, step: &str) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs_f64();
    let worker = env::var("ADIEU_DRILL_WORKER").unwrap_or_else(|_| "none".to_owned());
    ledger.write_all(format!("{job} {step} {now:.6} {worker}\n").as_bytes())
}

fn enqueue(first: &str, last: &str) -> Result<(), BoxError> {
    let jobs: Vec<String> = (first.parse::<u64>()?..=last.parse()?)
        .map(|job| job.to_string())
        .collect();
    let runtime = tokio::runtime::Runtime::new()?;
    Ok(runtime.block_on(push(&variable("QUEUE")?, &jobs))?)
}

async fn push(url: &str, jobs: &[String]) -> Result<(), QueueError> {
    match engine(url) {
        "nats" => {
            let queue = NatsQueue::create(url, "jobs").await?;
            for job in jobs {
                queue.push(job.as_bytes()).await?;
            }
        }
        "redis" => {
            let queue = RedisQueue::create(url, "jobs").await?;
            for job in jobs {
                queue.push(job.as_bytes()).await?;
            }
        }
        _ => {
            let queue = PostgresQueue::create(url, "jobs").await?;
            for job in jobs {
                queue.push(job.as_bytes()).await?;
            }
        }
    }
    Ok(())
}

/// `redis` of `redis://127.0.0.1:6379`.
fn engine(url: &str) -> &str {
    url.split("://").next().unwrap_or_default()
}

fn lease() -> Result<Duration, BoxError> {
    seconds("LEASE", 5.0)
}

fn seconds(name: &str, default: f64) -> Result<Duration, BoxError> {
    let seconds = match env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name}={text}: not a number of seconds"))?,
        Err(_) => default,
    };
    Ok(Duration::try_from_secs_f64(seconds)?)
}

fn variable(name: &str) -> Result<String, BoxError> {
    env::var(name).map_err(|_| format!("{name} is not set; drill.sh and by-hand.sh set it").into())
}
