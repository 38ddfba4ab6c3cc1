//! What it costs to spawn and finish a named, tracked task.
//!
//! Two ways to do it: all at once, so that up to a million are alive and no code holds their handles; and in
//! batches whose handles are awaited, so that everything stays in the caches and our own share weighs most.
//!
//! Who spawns is a plain task for every contestant: it is polled once for each handle that it awaits, and what a poll
//! of a tracked task costs is not what is asked here (see `watchdog`).

use std::future::Future;
use std::io;
use std::time::Duration;

use adieu_bench::{Duel, Finding, Stopwatch, Unit, rounds, steady_heap};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio_graceful_shutdown::{SubsystemBuilder, SubsystemHandle, Toplevel};
use tokio_util::task::TaskTracker;

const TASKS: u32 = 1_000_000;
const BATCH: usize = 1_000;
/// It is slower by an order of magnitude, and its cost for each task is what is wanted.
const SUBSYSTEMS: u32 = 50_000;

#[derive(Clone, Copy)]
enum Way {
    AtOnce,
    Batches,
}

fn main() -> io::Result<()> {
    steady_heap()?;
    let rounds = rounds(7);
    for (threads, plural) in [(1, "1 thread"), (2, "2 threads")] {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        for (way, words) in [(Way::AtOnce, "at once"), (Way::Batches, "in batches")] {
            compare(&runtime, way, &format!("{words}, {plural}"), rounds);
        }
        others(&runtime, &format!("at once, {plural}"), rounds.min(3));
    }
    Ok(())
}

fn compare(runtime: &Runtime, way: Way, case: &str, rounds: usize) {
    let [ours, bare, tracker] = Duel::new()
        .with(|| runtime.block_on(ours(way)))
        .with(|| on_worker(runtime, drive(way, || tokio::spawn(async {}))))
        .with(|| {
            let tracker = TaskTracker::new();
            on_worker(runtime, async move {
                let took = drive(way, || tracker.spawn(async {})).await;
                tracker.close();
                tracker.wait().await;
                took
            })
        })
        .fight(rounds);
    each(case, ours, TASKS)
        .over("tokio::spawn", bare / f64::from(TASKS))
        .at_most(1.25)
        .tell();
    each(case, ours, TASKS)
        .over("TaskTracker", tracker / f64::from(TASKS))
        .at_most(1.10)
        .tell();
}

/// For information: what else keeps track of tasks.
fn others(runtime: &Runtime, case: &str, rounds: usize) {
    let [ours, set, subsystems] = Duel::new()
        .with(|| runtime.block_on(ours(Way::AtOnce)))
        .with(|| on_worker(runtime, join_set()))
        .with(|| runtime.block_on(subsystems()))
        .fight(rounds);
    each(case, ours, TASKS)
        .over("JoinSet", set / f64::from(TASKS))
        .tell();
    each(case, ours, TASKS)
        .over(
            "tokio-graceful-shutdown",
            subsystems / f64::from(SUBSYSTEMS),
        )
        .tell();
}

fn each(case: &str, nanos: f64, tasks: u32) -> Finding {
    Finding::value("spawn", case, Unit::Ns, nanos / f64::from(tasks))
}

fn on_worker(runtime: &Runtime, work: impl Future<Output = Duration> + Send + 'static) -> Duration {
    runtime
        .block_on(runtime.spawn(work))
        .expect("the contestant does not panic")
}

/// With the handle that a task of a scope has.
async fn ours(way: Way) -> Duration {
    let (tell, told) = oneshot::channel();
    let report = adieu::scope("bench")
        .run(async |app| {
            app.task("driver", move |stop| async move {
                let spawn = move || stop.spawn("job", async {}).expect("nothing is stopping");
                let took = tokio::spawn(drive(way, spawn)).await;
                let _ = tell.send(took.expect("the driver does not panic"));
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    told.await.expect("the driver told")
}

async fn drive<H: Future>(way: Way, spawn: impl Fn() -> H) -> Duration {
    match way {
        Way::AtOnce => at_once(spawn).await,
        Way::Batches => batches(spawn).await,
    }
}

async fn at_once<H>(spawn: impl Fn() -> H) -> Duration {
    // The runtime itself counts the living, for every contestant alike: a counter in the tasks would cost
    // more than what is measured.
    let metrics = Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let start = Stopwatch::start();
    for _ in 0..TASKS {
        drop(spawn());
    }
    while metrics.num_alive_tasks() > before {
        yield_now().await;
    }
    start.elapsed()
}

async fn batches<H: Future>(spawn: impl Fn() -> H) -> Duration {
    let mut handles = Vec::with_capacity(BATCH);
    let start = Stopwatch::start();
    for _ in 0..TASKS as usize / BATCH {
        handles.extend((0..BATCH).map(|_| spawn()));
        for handle in handles.drain(..) {
            handle.await;
        }
    }
    start.elapsed()
}

async fn join_set() -> Duration {
    let mut set = JoinSet::new();
    let start = Stopwatch::start();
    for _ in 0..TASKS {
        set.spawn(async {});
    }
    while set.join_next().await.is_some() {}
    start.elapsed()
}

async fn subsystems() -> Duration {
    let (tell, told) = oneshot::channel();
    let work = async move |handle: &mut SubsystemHandle| {
        let start = Stopwatch::start();
        for _ in 0..SUBSYSTEMS {
            let job = async |_: &mut SubsystemHandle| Ok::<_, adieu::BoxError>(());
            handle.start(SubsystemBuilder::new("job", job));
        }
        handle.wait_for_children().await;
        let _ = tell.send(start.elapsed());
        handle.request_shutdown();
    };
    let ended = Toplevel::new(work)
        .handle_shutdown_requests(Duration::from_secs(60))
        .await;
    ended.expect("it shuts down");
    told.await.expect("the driver told")
}
