//! From SIGTERM to the stop as a task sees it, in a service that was asleep.
//!
//! Parent and child read the same monotonic clock: the parent just before it sends the signal, the child just
//! after its task has woken up. A bare tokio program that waits for the same signal stands beside it.

use std::io;
use std::thread;

use adieu_bench::{Child, Clock, Finding, REST, Series, Unit, elapsed, rounds};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("ours") => {
            ours();
            Ok(())
        }
        Some("tokio") => bare(),
        _ => compare(rounds(5)),
    }
}

fn compare(series: usize) -> io::Result<()> {
    let mut series = Series::measure(series, "tokio", latency)?;
    for percent in [50, 99] {
        let (ours, bare) = series.best(percent);
        let case = format!("SIGTERM to stop seen, p{percent}");
        let finding = Finding::value("signal", &case, Unit::Us, ours / 1e3);
        if percent == 99 {
            finding.at_most(1_000.0).tell();
        } else {
            finding.tell();
        }
        Finding::value("signal", case, Unit::Us, ours / 1e3)
            .above("tokio::signal", bare / 1e3)
            .tell();
    }
    Ok(())
}

/// In nanoseconds.
fn latency(role: &str) -> io::Result<f64> {
    let mut child = Child::start(role)?;
    thread::sleep(REST);
    let sent = child.terminate()?;
    let seen = child.line()?.parse().map_err(io::Error::other)?;
    child.wait()?;
    Ok(elapsed(sent, seen))
}

fn ours() {
    let report = adieu::service("bench").run(async |app| {
        app.task("watcher", |stop| async move {
            println!("ready");
            stop.requested().await;
            println!("{}", Clock::now());
        });
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}

fn bare() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let watcher = tokio::spawn(async move {
            println!("ready");
            terminate.recv().await;
            println!("{}", Clock::now());
        });
        watcher.await.map_err(io::Error::other)
    })
}
