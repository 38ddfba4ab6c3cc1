//! From SIGTERM to the end of the process, for a service with nothing to do and for a bare tokio program that
//! waits for the signal and returns.

use std::io;

use adieu_bench::{Finding, Unit, percentile, rounds, signal_then_exit};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("ours") => {
            ours();
            Ok(())
        }
        Some("tokio") => bare(),
        _ => compare(rounds(200)),
    }
}

fn compare(processes: usize) -> io::Result<()> {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..processes {
        ours.push(signal_then_exit("ours")?);
        bare.push(signal_then_exit("tokio")?);
    }
    for percent in [50, 99] {
        let micros = |times: &mut [f64]| percentile(times, percent) / 1e3;
        let case = format!("SIGTERM to exit, p{percent}");
        Finding::value("exit", case, Unit::Us, micros(&mut ours))
            .above("bare tokio", micros(&mut bare))
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
