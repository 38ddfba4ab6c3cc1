//! An idle service sleeps: context switches of all its threads over ten seconds, which must be none.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use adieu_bench::{Child, Finding, Unit};

/// For the watchdog to see that nothing happens, and to go to sleep too.
const SETTLE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("ours") {
        ours();
        return Ok(());
    }
    let child = Child::start("ours")?;
    thread::sleep(SETTLE);
    let before = switches(child.id())?;
    thread::sleep(IDLE);
    let after = switches(child.id())?;
    child.terminate()?;
    child.wait()?;
    Finding::value(
        "idle",
        "wake-ups in 10 s",
        Unit::Switches,
        f64::from(after - before),
    )
    .at_most(0.0)
    .tell();
    Ok(())
}

/// Voluntary and other context switches of all threads so far.
fn switches(process: u32) -> io::Result<u32> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        sum += status
            .lines()
            .filter_map(|line| {
                line.split_once("ctxt_switches:")?
                    .1
                    .trim()
                    .parse::<u32>()
                    .ok()
            })
            .sum::<u32>();
    }
    Ok(sum)
}

fn ours() {
    let report = adieu::service("bench").run(async |app| {
        app.admin("127.0.0.1:0").await?;
        for name in ["database", "cache"] {
            let open = async { io::Result::Ok(()) };
            app.resource(name, open).stop(|()| async {}).await?;
        }
        for name in ["importer", "exporter", "heartbeat"] {
            app.task(name, |stop| async move {
                let inner = stop.clone();
                let child = stop.spawn("child", async move { inner.requested().await });
                stop.requested().await;
                drop(child);
            });
        }
        app.task("sleeper", |stop| async move {
            println!("ready");
            stop.sleep(Duration::from_secs(3_600)).await;
        });
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}
