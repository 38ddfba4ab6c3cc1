//! From SIGTERM to the end of the process, for a service with nothing to do and for a bare tokio program that
//! waits for the signal and returns.

use std::io;

use adieu_bench::{Finding, Series, Unit, rounds, signal_then_exit};
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
    let mut series = Series::measure(series, "tokio", signal_then_exit)?;
    for percent in [50, 99] {
        let (ours, bare) = series.best(percent);
        let case = format!("SIGTERM to exit, p{percent}");
        Finding::value("exit", case, Unit::Us, ours / 1e3)
            .above("bare tokio", bare / 1e3)
            .at_most(2_000.0)
            .tell();
    }
    Ok(())
}

fn ours() {
    let report = adieu::service("bench").run(async |app| {
        // A service with no part at all ends by itself.
        app.task("nothing", |stop| async move {
            println!("ready");
            stop.requested().await;
        });
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}

fn bare() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        println!("ready");
        terminate.recv().await;
        Ok(())
    })
}
