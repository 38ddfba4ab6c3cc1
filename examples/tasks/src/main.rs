//! A small shop: orders come in, are queued and packed, and none is lost when the shop closes.
//!
//! It closes by itself after three seconds (`--seconds N` for another time), or earlier with Ctrl-C.
//! `RUST_LOG=info` shows every stage of the stop.

mod ledger;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use adieu::report::{Exit, PrintReport};
use adieu::{App, Stop};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing_subscriber::EnvFilter;

use crate::ledger::Ledger;

const USAGE: &str = "usage: example-tasks [--seconds N]";

fn main() -> ExitCode {
    let opening_time = match read_flags(std::env::args().skip(1)) {
        Ok(time) => time,
        Err(problem) => {
            eprintln!("example-tasks: {problem}\n{USAGE}");
            return ExitCode::from(Exit::Usage.code());
        }
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // tracing would report it with eprintln!, which panics if standard error is closed.
        .log_internal_errors(false)
        .init();

    let report = adieu::service("shop")
        .grace(Duration::from_secs(10))
        .print(PrintReport::Always)
        .run(async |app: &mut App| setup(app, opening_time).await);
    ExitCode::from(report.exit_code())
}

fn read_flags(mut words: impl Iterator<Item = String>) -> Result<Duration, String> {
    let mut seconds = 3.0;
    while let Some(word) = words.next() {
        if word != "--seconds" {
            return Err(format!("unknown argument `{word}`"));
        }
        let number = words.next().ok_or("--seconds needs a number")?;
        seconds = number
            .parse()
            .map_err(|_| format!("`{number}` is not a number"))?;
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("--seconds {seconds}: {error}"))
}

/// Program order is start order. The stop mirrors it: first the tasks end, then the ledger closes.
async fn setup(app: &mut App, opening_time: Duration) -> adieu::Result {
    let ledger = app
        .resource("ledger", Ledger::open())
        .stop(|ledger| async move { ledger.close().await })
        .await?;

    let (queue, orders) = mpsc::channel(16);
    app.task("catalogue", load_catalogue);
    app.task("counter", {
        let ledger = ledger.clone();
        move |stop| take_orders(ledger, queue, stop)
    });
    app.task("packer", {
        let ledger = ledger.clone();
        move |stop| pack_orders(ledger, orders, stop)
    });
    app.task("heartbeat", move |stop| heartbeat(ledger, stop))
        .report_only();

    let shop = app.shutdown_handle();
    app.task("clock", move |stop| async move {
        if stop.sleep(opening_time).await {
            shop.stop("demo over");
        }
    });

    app.on_exit("telemetry", || async {
        println!("telemetry: flushed, and good night");
    });
    Ok(())
}

/// Parallel work, gathered: the pages load together, and if one failed the others would be cancelled. Then
/// work for a processor, which must not hold up the loop.
async fn load_catalogue(stop: Stop) -> adieu::Result {
    let mut pages = stop.group::<Vec<u32>, io::Error>();
    for page in 1..=3 {
        pages.spawn(format!("page {page}"), move |_stop| load_page(page))?;
    }
    let articles = pages.join().await?.concat();

    let sorting = stop.blocking("sort", move || {
        let mut articles = articles;
        articles.sort_unstable();
        articles
    })?;
    let articles = sorting.await?;
    println!("catalogue: {} articles", articles.len());
    Ok(())
}

async fn load_page(page: u32) -> io::Result<Vec<u32>> {
    sleep(Duration::from_millis(100) * page).await;
    Ok((1..=100).map(|number| number * 7 % 101 + page).collect())
}

/// A periodic task: the sleep ends at once when the shop closes.
async fn take_orders(ledger: Ledger, queue: mpsc::Sender<u32>, stop: Stop) {
    let mut order = 0;
    while stop.sleep(Duration::from_millis(200)).await {
        // First a place in the queue, then the order: what is accepted can be queued.
        let Ok(place) = queue.reserve().await else {
            return;
        };
        order += 1;
        ledger.accept();
        place.send(order);
    }
}

/// A consumer: waits for orders until the shop closes, and leaves none behind.
async fn pack_orders(ledger: Ledger, mut orders: mpsc::Receiver<u32>, stop: Stop) {
    while let Some(Some(order)) = stop.until(orders.recv()).await {
        pack(&ledger, order).await;
    }
    // No new ones; those in the queue were accepted, so they are packed.
    orders.close();
    println!("packer: closing time, {} orders to go", orders.len());
    while let Some(order) = orders.recv().await {
        pack(&ledger, order).await;
    }
}

async fn pack(ledger: &Ledger, order: u32) {
    sleep(Duration::from_millis(250)).await;
    ledger.pack(order);
}

async fn heartbeat(ledger: Ledger, stop: Stop) {
    while stop.sleep(Duration::from_secs(1)).await {
        println!("heartbeat: {}", ledger.summary());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adieu::testing::sweep;

    /// Stopped at any await point, in `setup` or in a task, the shop loses no order: the ledger's close
    /// would fail, and the sweep with it.
    #[test]
    fn no_order_is_lost_wherever_the_stop_comes() {
        let setup = async |app: &mut App| setup(app, Duration::from_secs(3)).await;
        let swept = sweep(setup).lasting(Duration::from_secs(5)).run();
        assert!(swept.is_complete());
        assert!(swept.points() > 30, "{swept:?}");
    }

    #[test]
    fn flags_are_read_or_refused() {
        let read = |words: &str| read_flags(words.split_whitespace().map(str::to_owned));
        assert_eq!(read(""), Ok(Duration::from_secs(3)));
        assert_eq!(read("--seconds 0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["--seconds", "--seconds ten", "--seconds -1", "--minutes 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
