//! A hundred thousand schedules: bytes for each, and how late their runs begin, beside `tokio-cron-scheduler` and
//! `apalis-cron`.
//!
//! Each has a cron line with a second of its own, so that every second sees as many. A run notes how far the wall clock
//! is beyond the second it was due. All contestants live in this process, one after the other, each on a runtime of its
//! own.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adieu_bench::{Counting, Finding, Unit, percentile, rounds};
use apalis_core::worker::builder::WorkerBuilder;
use apalis_cron::{CronScheduler, Tick};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_cron_scheduler::{Job, JobScheduler};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const SCHEDULES: usize = 100_000;
/// What was only needed to begin is gone by then.
const SETTLE: Duration = Duration::from_secs(2);
/// How long runs are listened to.
const LISTEN: Duration = Duration::from_secs(12);

/// Milliseconds of delay, of all runs since the listening began.
#[derive(Clone, Default)]
struct Delays(Arc<Mutex<Option<Vec<f64>>>>);

impl Delays {
    /// A run that was due at this second of the minute begins now.
    fn note(&self, second: usize) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64() % 60.0;
        let late = (now - second as f64).rem_euclid(60.0) * 1e3;
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delays) = &mut *delays {
            delays.push(late);
        }
    }

    fn replace(&self, by: Option<Vec<f64>>) -> Vec<f64> {
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *delays, by).unwrap_or_default()
    }
}

/// What one contestant showed.
struct Shown {
    bytes: f64,
    /// Seconds.
    registered: f64,
    delays: Vec<f64>,
}

/// Measures from before the first schedule is made.
struct Watch {
    delays: Delays,
    before: usize,
    begun: Instant,
}

impl Watch {
    fn new() -> Self {
        Self {
            delays: Delays::default(),
            before: ALLOCATOR.live(),
            begun: Instant::now(),
        }
    }

    /// All schedules are made.
    async fn listen(self) -> Shown {
        let registered = self.begun.elapsed().as_secs_f64();
        tokio::time::sleep(SETTLE).await;
        let bytes = ALLOCATOR.live().saturating_sub(self.before) as f64 / SCHEDULES as f64;
        self.delays.replace(Some(Vec::with_capacity(2 * SCHEDULES)));
        tokio::time::sleep(LISTEN).await;
        Shown {
            bytes,
            registered,
            delays: self.delays.replace(None),
        }
    }
}

fn main() {
    let contestants: [fn() -> Shown; 3] = [ours, tokio_cron_scheduler, apalis_cron];
    let mut shown = [(); 3].map(|()| Vec::new());
    for round in 0..rounds(2) {
        for step in 0..contestants.len() {
            let turn = (round + step) % contestants.len();
            shown[turn].push(contestants[turn]());
        }
    }
    let [ours, peers @ ..] = shown;
    for (name, peer) in ["tokio-cron-scheduler", "apalis-cron"]
        .into_iter()
        .zip(peers)
    {
        compare(name, &ours, &peer);
    }
}

fn compare(name: &'static str, ours: &[Shown], peer: &[Shown]) {
    // A busy machine only ever adds.
    let least = |shown: &[Shown], of: &dyn Fn(&Shown) -> f64| {
        shown.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let tell = |what: &str, unit, of: &dyn Fn(&Shown) -> f64| {
        Finding::value("schedules", what, unit, least(ours, of)).over(name, least(peer, of))
    };
    // The most, and not the least: what the one before gives back meanwhile is missing from it.
    let bytes = |all: &[Shown]| all.iter().map(|shown| shown.bytes).fold(0.0, f64::max);
    Finding::value("schedules", "bytes for each", Unit::Bytes, bytes(ours))
        .over(name, bytes(peer))
        .at_most(1.0)
        .tell();
    tell("to register all", Unit::Ms, &|shown| shown.registered * 1e3).tell();
    let due = SCHEDULES as f64 * LISTEN.as_secs_f64() / 60.0;
    let begun = |shown: &Shown| shown.delays.len() as f64 / due * 100.0;
    tell("runs begun of those due", Unit::Percent, &begun).tell();
    for (what, percent) in [("lateness, p50", 50), ("lateness, p99", 99)] {
        let late = |shown: &Shown| match shown.delays.is_empty() {
            true => f64::INFINITY,
            false => percentile(&mut shown.delays.clone(), percent),
        };
        tell(what, Unit::Ms, &late).at_most(1.0).tell();
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn line(second: usize) -> String {
    format!("{second} * * * * *")
}

fn ours() -> Shown {
    let runtime = runtime();
    let watch = Watch::new();
    let delays = watch.delays.clone();
    let (running, runs) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = Mutex::new(Some(running));
    let life = adieu::scope("bench")
        .stop_when(async {
            let _ = stopped.await;
        })
        .on_notice(move |notice| {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            if *notice == adieu::report::Notice::Running
                && let Some(running) = running.take()
            {
                let _ = running.send(());
            }
        })
        .run(async move |app| {
            for number in 0..SCHEDULES {
                let (delays, second) = (delays.clone(), number % 60);
                app.cron(number.to_string(), line(second), "UTC", move |_run| {
                    delays.note(second);
                    async {}
                });
            }
            Ok(())
        });
    let listen = async {
        runs.await.expect("it runs");
        let shown = watch.listen().await;
        drop(stop);
        shown
    };
    let (report, shown) = runtime.block_on(async { tokio::join!(life, listen) });
    assert_eq!(report.exit_code(), 0, "{report}");
    shown
}

fn tokio_cron_scheduler() -> Shown {
    let runtime = runtime();
    let watch = Watch::new();
    let shown = runtime.block_on(async {
        let scheduler = JobScheduler::new().await.expect("a scheduler");
        for number in 0..SCHEDULES {
            let (delays, second) = (watch.delays.clone(), number % 60);
            let job = Job::new_async(line(second), move |_, _| {
                delays.note(second);
                Box::pin(async {})
            });
            let job = job.expect("a cron line");
            scheduler.add(job).await.expect("room");
        }
        scheduler.start().await.expect("it starts");
        watch.listen().await
    });
    runtime.shutdown_background();
    shown
}

fn apalis_cron() -> Shown {
    let runtime = runtime();
    let watch = Watch::new();
    let shown = runtime.block_on(async {
        for number in 0..SCHEDULES {
            let (delays, second) = (watch.delays.clone(), number % 60);
            let schedule = cron::Schedule::from_str(&line(second)).expect("a cron line");
            let worker = WorkerBuilder::new(number.to_string())
                .backend(CronScheduler::new(schedule))
                .build(move |_tick: Tick| {
                    delays.note(second);
                    async {}
                });
            tokio::spawn(worker.run());
        }
        watch.listen().await
    });
    runtime.shutdown_background();
    shown
}
