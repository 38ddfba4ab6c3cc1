//! What a consumer promises, on a queue in memory and a paused clock. The engines have the same promises to keep, with
//! real servers, in `fixtures/consumer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use adieu::queue::{Delivery, Job, MemoryQueue, MemoryReceipt, Queue, QueueError, ShutdownSignal};
use adieu::report::Outcome;
use adieu::retry::{Backoff, Permanent, RetryAfter};
use tokio::sync::{Semaphore, oneshot};

use crate::clues::{Diary, calm, millis, secs};

const LEASE: Duration = secs(30);

fn queue_of(jobs: u32) -> MemoryQueue {
    let queue = MemoryQueue::new(LEASE);
    for number in 1..=jobs {
        queue.push(number.to_string());
    }
    queue
}

/// Counts who is inside.
#[derive(Clone, Default)]
struct Room(Arc<(AtomicUsize, AtomicUsize)>);

impl Room {
    fn enter(&self) -> impl Send + use<> {
        let inside = self.0.0.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.1.fetch_max(inside, Ordering::AcqRel);
        let room = self.clone();
        crate::clues::OnDrop(Some(move || {
            room.0.0.fetch_sub(1, Ordering::AcqRel);
        }))
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::Acquire)
    }
}

#[tokio::test(start_paused = true)]
async fn every_job_is_done_once_and_never_more_at_a_time_than_said() {
    let (queue, room, diary) = (queue_of(100), Room::default(), Diary::default());
    let (ours, inside, seen) = (queue.clone(), room.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(60)))
        .run(async move |app| {
            app.consume("orders", ours, move |job: Job| {
                let (inside, seen) = (inside.enter(), seen.clone());
                async move {
                    tokio::time::sleep(millis(10)).await;
                    seen.write(job.text());
                    drop(inside);
                }
            })
            .concurrency(8)
            .prefetch(4);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let mut lines = diary.lines();
    lines.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(lines, (1..=100).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(room.most(), 8);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn on_a_stop_jobs_in_progress_finish_and_those_fetched_ahead_are_given_back_at_once() {
    let (queue, diary) = (queue_of(10), Diary::default());
    let (ours, seen) = (queue.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(1)))
        .run(async move |app| {
            app.consume("orders", ours, move |job: Job| {
                let seen = seen.clone();
                async move {
                    tokio::time::sleep(secs(3)).await;
                    seen.write(job.text());
                }
            })
            .concurrency(2)
            .prefetch(3);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), ["1", "2"]);
    // Eight are left, and all eight can be had now, not when a lease ends.
    assert_eq!((queue.len(), queue.ready()), (8, 8));
    assert_eq!(report.part("orders").unwrap().notes, ["3 jobs given back"]);
    assert!(report.took() < secs(3), "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_finish_is_cut_named_and_given_back_at_once() {
    let queue = queue_of(3);
    let ours = queue.clone();
    let report = calm()
        .stop_when(tokio::time::sleep(secs(1)))
        .run(async move |app| {
            app.consume("orders", ours, |_job| std::future::pending::<()>())
                .concurrency(2);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    assert_eq!((queue.len(), queue.ready()), (3, 3));
    let lost = report.lost();
    assert_eq!(lost.len(), 1, "{report}");
    assert_eq!((&*lost[0].name, lost[0].count), ("orders: job", 2));
    assert_eq!(report.part("orders").unwrap().outcome, Outcome::Finished);
    assert!(report.took() <= secs(10), "{report}");
}

#[tokio::test(start_paused = true)]
async fn giving_back_is_no_attempt() {
    let queue = queue_of(1);
    for _ in 0..3 {
        let ours = queue.clone();
        let report = calm()
            .stop_when(tokio::time::sleep(secs(1)))
            .run(async move |app| {
                app.consume("orders", ours, |job: Job| {
                    assert_eq!(job.attempt, 1);
                    std::future::pending::<()>()
                })
                .attempts(1);
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 3, "{report}");
    }
    assert_eq!((queue.ready(), queue.dead().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_long_job_keeps_its_lease() {
    let (queue, diary) = (queue_of(1), Diary::default());
    let done = Arc::new(Semaphore::new(0));
    let (first, second) = (queue.clone(), queue.clone());
    let (seen, told) = (diary.clone(), Arc::clone(&done));
    let report = calm()
        .stop_when(async move { drop(done.acquire().await) })
        .run(async move |app| {
            for (name, ours) in [("one", first), ("two", second)] {
                let (seen, told) = (seen.clone(), Arc::clone(&told));
                app.consume(name, ours, move |_job| {
                    let (seen, told) = (seen.clone(), Arc::clone(&told));
                    async move {
                        seen.write("begun");
                        tokio::time::sleep(LEASE * 10).await;
                        told.add_permits(1);
                    }
                });
            }
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), ["begun"]);
    assert!(queue.is_empty());
}

/// A queue whose leases cannot be renewed, as that of a process that hangs.
struct Unrenewed(MemoryQueue);

impl Queue for Unrenewed {
    type Receipt = MemoryReceipt;

    fn lease(&self) -> Duration {
        self.0.lease()
    }
    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<MemoryReceipt>>, QueueError> {
        self.0.fetch(most, stop).await
    }
    async fn ack(&self, job: &MemoryReceipt) -> Result<(), QueueError> {
        self.0.ack(job).await
    }
    async fn extend(&self, _jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        Err(QueueError::refused("not today"))
    }
    async fn give_back(&self, jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        self.0.give_back(jobs).await
    }
    async fn retry(
        &self,
        job: &MemoryReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        self.0.retry(job, after, counted).await
    }
    async fn bury(&self, job: &MemoryReceipt, reason: &str) -> Result<(), QueueError> {
        self.0.bury(job, reason).await
    }
}

/// The one whose lease is over cannot settle the job of the one who has it now, and says so.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_said_and_does_no_harm() {
    let queue = queue_of(1);
    let ours = Unrenewed(queue.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(LEASE * 3))
        .run(async move |app| {
            app.consume("orders", ours, |job: Job| async move {
                // The first attempt outlives its lease, the second one is quick.
                let long = if job.attempt == 1 { LEASE * 2 } else { secs(1) };
                tokio::time::sleep(long).await;
            })
            .concurrency(2);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(queue.is_empty());
    let note = "job 1 was done and the queue could not be told: it will come again";
    assert_eq!(report.part("orders").unwrap().notes, [note]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_comes_again_later_and_a_poison_job_does_not_stop_the_line() {
    let (queue, diary) = (queue_of(3), Diary::default());
    let (ours, seen) = (queue.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(600)))
        .run(async move |app| {
            app.consume("orders", ours, move |job: Job| {
                let seen = seen.clone();
                async move {
                    seen.write(format!("{} {}", job.text(), job.attempt));
                    match (&*job.text(), job.attempt) {
                        ("1", _) => panic!("poison"),
                        ("2", 1) => Err("once is not enough"),
                        _ => Ok(()),
                    }
                }
            })
            .attempts(3)
            .backoff(Backoff {
                first: secs(1),
                longest: secs(60),
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let lines = diary.lines();
    // The others do not wait for the poison.
    assert_eq!(lines[..3], ["1 1", "2 1", "3 1"], "{lines:?}");
    let mut rest = lines[3..].to_vec();
    rest.sort();
    assert_eq!(rest, ["1 2", "1 3", "2 2"]);
    let dead = queue.dead();
    assert_eq!(dead.len(), 1);
    assert_eq!((&*dead[0].0, &*dead[0].1), ("1", &b"1"[..]));
    assert!(dead[0].2.contains("poison"), "{}", dead[0].2);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn later_does_not_count_and_never_is_at_once() {
    let (queue, diary) = (queue_of(2), Diary::default());
    let (ours, seen) = (queue.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(3600)))
        .run(async move |app| {
            let asked = Arc::new(AtomicUsize::new(0));
            app.consume("orders", ours, move |job: Job| {
                let (seen, asked) = (seen.clone(), Arc::clone(&asked));
                async move {
                    seen.write(format!("{} {}", job.text(), job.attempt));
                    if job.text() == "2" {
                        Err(Permanent::new("no such order"))?;
                    }
                    if asked.fetch_add(1, Ordering::AcqRel) < 10 {
                        Err(RetryAfter::after(secs(60), "the warehouse is closed"))?;
                    }
                    Ok::<_, adieu::BoxError>(())
                }
            })
            .attempts(2);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let lines = diary.lines();
    assert_eq!(
        lines.iter().filter(|line| *line == "1 1").count(),
        11,
        "{lines:?}"
    );
    assert_eq!(lines.iter().filter(|line| line.starts_with('2')).count(), 1);
    assert_eq!(queue.dead()[0].2, "no such order");
    assert!(queue.is_empty());
}

/// A job that takes its process with it is never settled; after so many deliveries it is not begun any more.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_begun_too_often_is_not_begun_again() {
    let (queue, diary) = (queue_of(1), Diary::default());
    let stop = adieu::scope("outside");
    for _ in 0..2 {
        // Fetched by a consumer that then never settles it.
        let ours = queue.clone();
        let (tell, told) = oneshot::channel();
        let report = adieu::scope("victim")
            .run(async move |app| {
                let stop = app.stop();
                app.task("fetch", move |_| async move {
                    let fetched = ours.fetch(1, &stop).await.unwrap();
                    let _ = tell.send(fetched.len());
                });
                Ok(())
            })
            .await;
        assert_eq!((report.exit_code(), told.await), (0, Ok(1)));
    }
    let (ours, seen) = (queue.clone(), diary.clone());
    let report = stop
        .grace(secs(10))
        .stop_when(tokio::time::sleep(LEASE * 4))
        .run(async move |app| {
            app.consume("orders", ours, move |job: Job| {
                seen.write(job.text());
                async {}
            })
            .attempts(2);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), [""; 0]);
    assert_eq!(queue.dead()[0].2, "it was begun 2 times and never ended");
}

#[tokio::test(start_paused = true)]
async fn a_job_has_a_time_limit_if_it_is_given_one() {
    let queue = queue_of(1);
    let ours = queue.clone();
    let report = calm()
        .stop_when(tokio::time::sleep(secs(60)))
        .run(async move |app| {
            app.consume("orders", ours, |_job| std::future::pending::<()>())
                .attempts(1)
                .job_limit(secs(5));
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(queue.dead()[0].2, "cut after 5.00 s");
}

/// A queue that is away for a while, for everything but fetching.
struct Away(MemoryQueue, Arc<AtomicUsize>);

impl Away {
    fn answer(&self) -> Result<(), QueueError> {
        let calls = self.1.fetch_add(1, Ordering::AcqRel);
        match calls < 4 {
            true => Err(QueueError::failed("the queue", "connection refused")),
            false => Ok(()),
        }
    }
}

impl Queue for Away {
    type Receipt = MemoryReceipt;

    fn lease(&self) -> Duration {
        self.0.lease()
    }
    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<MemoryReceipt>>, QueueError> {
        self.answer()?;
        self.0.fetch(most, stop).await
    }
    async fn ack(&self, job: &MemoryReceipt) -> Result<(), QueueError> {
        self.answer()?;
        self.0.ack(job).await
    }
    async fn extend(&self, jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        self.0.extend(jobs).await
    }
    async fn give_back(&self, jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        self.0.give_back(jobs).await
    }
    async fn retry(
        &self,
        job: &MemoryReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        self.0.retry(job, after, counted).await
    }
    async fn bury(&self, job: &MemoryReceipt, reason: &str) -> Result<(), QueueError> {
        self.0.bury(job, reason).await
    }
}

/// A queue that takes its time to acknowledge.
struct Slow(MemoryQueue, Duration);

impl Queue for Slow {
    type Receipt = MemoryReceipt;

    fn lease(&self) -> Duration {
        self.0.lease()
    }
    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<MemoryReceipt>>, QueueError> {
        self.0.fetch(most, stop).await
    }
    async fn ack(&self, job: &MemoryReceipt) -> Result<(), QueueError> {
        tokio::time::sleep(self.1).await;
        self.0.ack(job).await
    }
    async fn extend(&self, jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        self.0.extend(jobs).await
    }
    async fn give_back(&self, jobs: &[MemoryReceipt]) -> Result<(), QueueError> {
        self.0.give_back(jobs).await
    }
    async fn retry(
        &self,
        job: &MemoryReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        self.0.retry(job, after, counted).await
    }
    async fn bury(&self, job: &MemoryReceipt, reason: &str) -> Result<(), QueueError> {
        self.0.bury(job, reason).await
    }
}

/// The drain ends between the end of the job and its acknowledgement: a job that is done is not given back.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_has_begun_is_not_cancelled() {
    let queue = queue_of(1);
    let slow = Slow(queue.clone(), millis(600));
    let done = Diary::default();
    let seen = done.clone();
    let report = calm()
        .stop_when(tokio::time::sleep(secs(1)))
        .run(async move |app| {
            app.task("waits", |stop| async move {
                stop.requested().await;
                std::future::pending::<()>().await;
            });
            app.consume("orders", slow, move |_job| {
                let seen = seen.clone();
                async move {
                    // Of the ten seconds of the grace the drain has eight and a half.
                    tokio::time::sleep(millis(9_200)).await;
                    seen.write("done");
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(done.lines(), ["done"], "{report}");
    assert_eq!(report.part("waits").unwrap().outcome, Outcome::Cancelled);
    assert_eq!((queue.len(), queue.ready()), (0, 0), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_away_is_asked_again_and_an_acknowledgement_is_not_lost() {
    let (queue, calls) = (queue_of(1), Arc::new(AtomicUsize::new(2)));
    let away = Away(queue.clone(), Arc::clone(&calls));
    let report = calm()
        .stop_when(tokio::time::sleep(secs(20)))
        .run(async move |app| {
            let calls = Arc::clone(&calls);
            app.consume("orders", away, move |_job| {
                // It goes away again while the job is being done.
                calls.store(0, Ordering::Release);
                async {}
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(queue.is_empty());
    assert_eq!(report.part("orders").unwrap().notes, [""; 0]);
}

/// The stop ends on time although the queue stays away, and says what that means.
#[tokio::test(start_paused = true)]
async fn a_queue_that_stays_away_does_not_hold_the_stop() {
    let (queue, calls) = (queue_of(1), Arc::new(AtomicUsize::new(4)));
    let away = Away(queue.clone(), Arc::clone(&calls));
    let report = calm()
        .stop_when(tokio::time::sleep(secs(1)))
        .run(async move |app| {
            let calls = Arc::clone(&calls);
            app.consume("orders", away, move |_job| {
                let calls = Arc::clone(&calls);
                async move {
                    tokio::time::sleep(secs(2)).await;
                    // For good: the count stays where it is.
                    tokio::spawn(async move {
                        loop {
                            calls.store(0, Ordering::Release);
                            tokio::time::sleep(millis(10)).await;
                        }
                    });
                    tokio::time::sleep(millis(20)).await;
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() <= secs(10), "{report}");
    assert_eq!(queue.len(), 1);
    let note = "job 1 was done and the queue could not be told: it will come again";
    assert_eq!(report.part("orders").unwrap().notes, [note]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_would_do_nothing_is_a_mistake() {
    let report = calm()
        .run(async |app| {
            app.consume("orders", queue_of(0), |_job| async {})
                .concurrency(0);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 2, "{report}");
    assert!(
        report.to_string().contains("must be at least 1"),
        "{report}"
    );
}
