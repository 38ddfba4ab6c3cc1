//! Stopping very many waiting tasks: from the request until the last of them has ended.
//!
//! The peer is what one would write by hand: a `CancellationToken` that every task waits for, and a
//! `TaskTracker` that is waited for. In a scope our stop runs on the runtime, as the peer's does when a task
//! cancels the token; in a service it comes from a thread of its own, as the peer's does from `main`.

use std::time::Duration;

use adieu::Stop;
use adieu_bench::{Duel, Finding, Stopwatch, Unit, rounds};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many tasks, and how many times the usual rounds: short ones are disturbed more easily.
const SIZES: [(u32, usize); 4] = [(1_000, 30), (10_000, 10), (100_000, 3), (1_000_000, 1)];
const THREADS: usize = 2;
const PEER: &str = "token + tracker";

fn main() {
    let rounds = rounds(5);
    for (tasks, times) in SIZES {
        let runtime = runtime();
        let [ours, peer] = Duel::new()
            .with(|| runtime.block_on(scope(tasks)))
            .with(|| peer_on_runtime(&runtime, tasks))
            .fight(rounds * times);
        tell("in a scope", tasks, ours, peer);

        let [ours, peer] = Duel::new()
            .with(|| service(tasks))
            .with(|| peer_from_main(tasks))
            .fight(rounds * times);
        tell("in a service", tasks, ours, peer);
    }
}

fn tell(place: &str, tasks: u32, ours: f64, peer: f64) {
    let each = |nanos: f64| nanos / f64::from(tasks);
    let finding = Finding::value("stop", format!("{tasks} {place}"), Unit::Ns, each(ours));
    let finding = finding.over(PEER, each(peer));
    // The bar is for very many; with few, what a stop costs by itself (phases, report) is most of it.
    if tasks == 1_000_000 {
        finding.at_most(1.2).tell();
    } else {
        finding.tell();
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(THREADS).enable_all().build();
    runtime.expect("a runtime can be made")
}

/// Until every task has been polled once and waits.
async fn settle(spawned: usize) {
    let metrics = Handle::current().metrics();
    while metrics.global_queue_depth() > 0 || metrics.num_alive_tasks() < spawned {
        yield_now().await;
    }
    // What is left in the workers' own queues is a few hundred tasks: let them run.
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn fill(stop: Stop, tasks: u32) {
    for _ in 0..tasks {
        let waiter = stop.clone();
        let waiting = stop.spawn("waiter", async move { waiter.requested().await });
        drop(waiting.expect("nothing is stopping"));
    }
    settle(tasks as usize).await;
}

async fn scope(tasks: u32) -> Duration {
    let (tell, told) = oneshot::channel();
    let report = adieu::scope("bench")
        .run(async |app| {
            let shutdown = app.shutdown_handle();
            app.task("driver", move |stop| async move {
                fill(stop, tasks).await;
                let _ = tell.send(Stopwatch::start());
                shutdown.stop("full");
            });
            Ok(())
        })
        .await;
    let took = told.await.expect("the driver told").elapsed();
    assert_eq!(report.exit_code(), 0, "{report}");
    took
}

fn service(tasks: u32) -> Duration {
    let (tell, told) = oneshot::channel();
    let report = adieu::service("bench")
        .worker_threads(THREADS)
        .print(adieu::report::PrintReport::Never)
        .run(async |app| {
            let shutdown = app.shutdown_handle();
            app.task("driver", move |stop| async move {
                fill(stop, tasks).await;
                let _ = tell.send(Stopwatch::start());
                shutdown.stop("full");
            });
            Ok(())
        });
    let took = told.blocking_recv().expect("the driver told").elapsed();
    assert_eq!(report.exit_code(), 0, "{report}");
    took
}

struct Peer {
    token: CancellationToken,
    tracker: TaskTracker,
}

impl Peer {
    async fn full(tasks: u32) -> Self {
        let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
        for _ in 0..tasks {
            let token = token.clone();
            drop(tracker.spawn(async move { token.cancelled().await }));
        }
        settle(tasks as usize).await;
        Self { token, tracker }
    }

    async fn stop(self) -> Duration {
        let start = Stopwatch::start();
        self.token.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        start.elapsed()
    }
}

fn peer_on_runtime(runtime: &Runtime, tasks: u32) -> Duration {
    let work = runtime.spawn(async move { Peer::full(tasks).await.stop().await });
    runtime.block_on(work).expect("it does not panic")
}

/// With a runtime of its own, as a service has.
fn peer_from_main(tasks: u32) -> Duration {
    let runtime = runtime();
    let filling = runtime.spawn(Peer::full(tasks));
    let peer = runtime.block_on(filling).expect("it does not panic");
    let took = runtime.block_on(peer.stop());
    runtime.shutdown_background();
    took
}
