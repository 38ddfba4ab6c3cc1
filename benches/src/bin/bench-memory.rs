//! Bytes for each waiting task, above a bare tokio task that waits for something of the same kind.
//!
//! Tokio rounds the memory of a task up to a multiple of 128 bytes on this processor family, so what a few more
//! bytes in a task cost depends on the size of its future: nothing mostly, 128 sometimes. The last case takes
//! the mean over futures of many sizes.

use std::future::{Future, pending};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use adieu::Stop;
use adieu_bench::{Counting, Finding, Unit};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// How many tasks have come to wait. A static, because a counter held by the tasks would be part of their size.
static WAITING: AtomicUsize = AtomicUsize::new(0);

const BAR: f64 = 96.0;

fn main() {
    for tasks in [1_000, 100_000, 1_000_000] {
        let finding = |what: &str, ours| {
            Finding::value("memory", format!("{tasks} {what}"), Unit::Bytes, ours)
        };
        let requested = ours(tasks, |stop| {
            let waiter = stop.clone();
            spawn(stop, async move {
                arrived();
                waiter.requested().await;
            });
        });
        let cancelled = bare(tasks, |token| drop(tokio::spawn(wait(token.clone()))));
        let tracker = TaskTracker::new();
        let tracked = bare(tasks, move |token| drop(tracker.spawn(wait(token.clone()))));
        let until_stop = || finding("waiting for the stop", requested);
        until_stop()
            .above("tokio::spawn", cancelled)
            .at_most(BAR)
            .tell();
        until_stop().above("TaskTracker", tracked).tell();

        let ours = ours(tasks, |stop| spawn(stop, nothing()));
        let bare = bare(tasks, |_| drop(tokio::spawn(nothing())));
        finding("waiting for nothing", ours)
            .above("tokio::spawn", bare)
            .at_most(BAR)
            .tell();
    }
    many_sizes();
}

/// The mean over futures of 8 to 256 bytes.
fn many_sizes() {
    const TASKS: usize = 10_000;
    let (mut us, mut them, mut sizes) = (0.0, 0.0, 0.0);
    macro_rules! sizes {
        ($($words:literal)*) => {$(
            us += ours(TASKS, |stop| spawn(stop, holding([0; $words])));
            them += bare(TASKS, |_| drop(tokio::spawn(holding([0; $words]))));
            sizes += 1.0;
        )*};
    }
    sizes!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
    let mean = "10000, mean over 32 sizes of future";
    Finding::value("memory", mean, Unit::Bytes, us / sizes)
        .above("tokio::spawn", them / sizes)
        .at_most(BAR)
        .tell();
}

async fn wait(token: CancellationToken) {
    arrived();
    token.cancelled().await;
}

async fn nothing() {
    arrived();
    pending::<()>().await;
}

async fn holding<const N: usize>(words: [u64; N]) {
    arrived();
    pending::<()>().await;
    black_box(words);
}

fn arrived() {
    WAITING.fetch_add(1, Ordering::Relaxed);
}

fn spawn(stop: &Stop, future: impl Future<Output = ()> + Send + 'static) {
    drop(stop.spawn("waiter", future).expect("nothing is stopping"));
}

fn bare(tasks: usize, spawn: impl Fn(&CancellationToken) + Send + Sync + 'static) -> f64 {
    let runtime = runtime();
    let token = CancellationToken::new();
    let work = runtime.spawn(async move { measure(tasks, || spawn(&token)).await });
    runtime.block_on(work).expect("it does not panic")
}

fn ours(tasks: usize, spawn: impl Fn(&Stop) + Send + Sync + 'static) -> f64 {
    let (tell, told) = oneshot::channel();
    let runtime = runtime();
    let driving = runtime.spawn(async move {
        let scope = adieu::scope("bench").run(async move |app| {
            app.task("driver", move |stop| async move {
                let _ = tell.send(measure(tasks, || spawn(&stop)).await);
            });
            Ok(())
        });
        drop(scope.await);
    });
    let bytes = runtime.block_on(told).expect("the driver told");
    // The tasks wait forever: they go with the runtime.
    drop(driving);
    bytes
}

/// Bytes for each task, once all of them wait.
async fn measure(tasks: usize, spawn: impl Fn()) -> f64 {
    WAITING.store(0, Ordering::Relaxed);
    let before = ALLOCATOR.live();
    (0..tasks).for_each(|_| spawn());
    while WAITING.load(Ordering::Relaxed) < tasks {
        yield_now().await;
    }
    let used = ALLOCATOR.live().saturating_sub(before);
    used as f64 / tasks as f64
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    runtime.expect("a runtime can be made")
}
