//! What the watchdog costs the tasks it watches: the same work in a service with it and without.

use std::time::Duration;

use adieu_bench::{Duel, Finding, Stopwatch, Unit, rounds};
use tokio::sync::oneshot;
use tokio::task::yield_now;

const TASKS: u32 = 2_000;
const YIELDS: u32 = 50;

fn main() {
    let [with, without] = Duel::new()
        .with(|| service(Some(Duration::from_millis(100))))
        .with(|| service(None))
        .fight(rounds(30));
    let each = |nanos: f64| nanos / f64::from(TASKS * YIELDS);
    Finding::value(
        "watchdog",
        "a poll, with the watchdog",
        Unit::Ns,
        each(with),
    )
    .over("without", each(without))
    .tell();
}

fn service(watchdog: Option<Duration>) -> Duration {
    let (tell, told) = oneshot::channel();
    let report = adieu::service("bench")
        .worker_threads(2)
        .print(adieu::report::PrintReport::Never)
        .watchdog(watchdog)
        .run(async |app| {
            app.task("driver", move |stop| async move {
                let start = Stopwatch::start();
                let spawn = |_| stop.spawn("job", work()).expect("nothing is stopping");
                let jobs: Vec<_> = (0..TASKS).map(spawn).collect();
                for job in jobs {
                    job.await.expect("a job neither panics nor is cancelled");
                }
                let _ = tell.send(start.elapsed());
            });
            Ok(())
        });
    assert_eq!(report.exit_code(), 0, "{report}");
    told.blocking_recv().expect("the driver told")
}

async fn work() {
    for _ in 0..YIELDS {
        yield_now().await;
    }
}
