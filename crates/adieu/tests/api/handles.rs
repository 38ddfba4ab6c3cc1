//! A component alone: stopped, started again, waited for, while the service goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use adieu::component::{ComponentHandle, ComponentStatus};
use adieu::report::{ComponentKind, Exit, Notice, Outcome};
use adieu::{App, Report, Restart, Stop};
use tokio::sync::Notify;

use crate::clues::{Diary, Flag, calm, millis, nothing, secs, stopped_after_a_second};

async fn until_stopped(stop: Stop) {
    stop.requested().await;
}

/// Runs this beside the components that `setup` makes, and stops the service when it is over.
async fn with_script<F>(
    setup: impl AsyncFnOnce(&mut App) -> adieu::Result,
    script: impl FnOnce(adieu::Components) -> F + Send + 'static,
) -> Report
where
    F: Future<Output = ()> + Send + 'static,
{
    calm()
        .run(async move |app| {
            setup(app).await?;
            let (components, shutdown) = (app.components(), app.shutdown_handle());
            app.task("script", move |_stop| async move {
                script(components).await;
                shutdown.stop("the script is over");
            });
            Ok(())
        })
        .await
}

fn named(components: &adieu::Components, name: &str) -> ComponentHandle {
    components.get(name).expect("it is registered")
}

#[tokio::test(start_paused = true)]
async fn one_task_stops_and_the_others_go_on() {
    let other_stopped = Flag::default();
    let (seen, theirs) = (other_stopped.clone(), other_stopped.clone());
    let report = with_script(
        async move |app| {
            app.task("one", until_stopped);
            app.task("other", |stop| async move {
                stop.requested().await;
                theirs.set();
            });
            Ok(())
        },
        async move |components| {
            let one = named(&components, "one");
            assert_eq!(one.status(), ComponentStatus::Ready);
            one.stop();
            assert_eq!(one.status(), ComponentStatus::Stopping);
            assert_eq!(one.done().await, Outcome::Finished);
            assert_eq!(one.status(), ComponentStatus::Over(Outcome::Finished));
            // Time for what should not happen.
            tokio::time::sleep(secs(60)).await;
            assert!(!seen.is_set(), "the other one goes on");
            assert_eq!(named(&components, "other").status(), ComponentStatus::Ready);
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert!(other_stopped.is_set());
}

#[tokio::test(start_paused = true)]
async fn what_a_task_waits_in_hears_of_its_own_stop() {
    let report = with_script(
        async |app| {
            app.task("sleeps", |stop| async move {
                assert!(!stop.sleep(secs(3_600)).await);
            });
            app.task("waits", |stop| async move {
                assert!(stop.until(std::future::pending::<()>()).await.is_none());
                assert!(stop.is_requested());
                assert_eq!(stop.deadline(), None, "the service does not stop");
            });
            app.task("owned", |stop| stop.requested_owned());
            app.task("group", |stop| async move {
                let mut group = stop.group::<(), std::io::Error>();
                let member = |stop: Stop| async move {
                    stop.requested().await;
                    Ok(())
                };
                group.spawn("member", member).expect("not too late");
                group.join().await.expect("it ends with success");
            });
            #[cfg(feature = "tokio-util")]
            app.task("token", |stop| async move {
                stop.token().cancelled().await;
            });
            Ok(())
        },
        async |components| {
            for component in components.all() {
                if component.name() != "script" {
                    component.stop();
                    assert_eq!(component.done().await, Outcome::Finished);
                }
            }
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert!(report.took() < millis(10), "{report}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_end_can_be_given_up_and_taken_up_again() {
    let report = with_script(
        async |app| {
            app.task("slow", |stop| async move {
                stop.requested().await;
                tokio::time::sleep(secs(5)).await;
            });
            Ok(())
        },
        async |components| {
            let slow = named(&components, "slow");
            slow.stop();
            let short = tokio::time::timeout(secs(1), slow.done()).await;
            assert!(short.is_err(), "it takes longer");
            assert_eq!(slow.done().await, Outcome::Finished);
            assert_eq!(slow.clone().done().await, Outcome::Finished, "also later");
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_closed_early_and_once() {
    let diary = Diary::default();
    let (theirs, said) = (diary.clone(), diary.clone());
    let report = with_script(
        async move |app| {
            for name in ["first", "second"] {
                let diary = theirs.clone();
                app.resource(name, nothing())
                    .stop(move |()| async move { diary.write(name) })
                    .await?;
            }
            Ok(())
        },
        async move |components| {
            let first = named(&components, "first");
            first.stop();
            first.stop();
            assert_eq!(first.done().await, Outcome::Closed);
            said.write("service stops");
        },
    )
    .await;
    assert_eq!(diary.lines(), ["first", "service stops", "second"]);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_service_waits_for_a_close_that_has_begun() {
    let closed = Flag::default();
    let seen = closed.clone();
    let report = with_script(
        async move |app| {
            app.resource("slow", nothing())
                .stop(move |()| async move {
                    tokio::time::sleep(millis(300)).await;
                    closed.set();
                })
                .await?;
            Ok(())
        },
        async |components| {
            let slow = named(&components, "slow");
            slow.stop();
            tokio::task::yield_now().await;
        },
    )
    .await;
    assert!(seen.is_set());
    assert_eq!(report.part("slow").unwrap().outcome, Outcome::Closed);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_one_run_and_begins_another() {
    let (runs, begun) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (counted, seen) = (Arc::clone(&runs), Arc::clone(&begun));
    let report = with_script(
        async move |app| {
            // Failures would stop the service at once: a restart is none.
            let never = Restart {
                limit: 0,
                ..Restart::default()
            };
            app.restarting("poller", never, move |stop| {
                counted.fetch_add(1, Ordering::Relaxed);
                begun.notify_one();
                until_stopped(stop)
            });
            Ok(())
        },
        async move |components| {
            let poller = named(&components, "poller");
            for _ in 0..3 {
                seen.notified().await;
                poller.restart().expect("it can be restarted");
            }
            seen.notified().await;
            assert_eq!(poller.status(), ComponentStatus::Ready);
        },
    )
    .await;
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    let poller = report.part("poller").unwrap();
    assert_eq!((poller.restarts, poller.outcome), (3, Outcome::Finished));
    let told = |notice: &&(_, Notice)| matches!(notice.1, Notice::Restarted { .. });
    assert_eq!(report.timeline().iter().filter(told).count(), 3);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_wait_for_the_backoff() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let report = with_script(
        async move |app| {
            let patient = Restart {
                first: secs(3_600),
                longest: secs(3_600),
                ..Restart::default()
            };
            app.restarting("flaky", patient, move |stop| {
                let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                async move {
                    if first {
                        return Err("not yet");
                    }
                    stop.requested().await;
                    Ok(())
                }
            });
            Ok(())
        },
        async move |components| {
            let flaky = named(&components, "flaky");
            tokio::time::sleep(secs(1)).await;
            let began = tokio::time::Instant::now();
            flaky.restart().expect("it can be restarted");
            while runs.load(Ordering::Relaxed) < 2 {
                tokio::task::yield_now().await;
            }
            assert!(began.elapsed() < secs(1));
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_after_a_restart_wins() {
    let report = with_script(
        async |app| {
            app.restarting("slow", Restart::default(), |stop| async move {
                stop.requested().await;
                tokio::time::sleep(secs(1)).await;
            });
            Ok(())
        },
        async |components| {
            let slow = named(&components, "slow");
            slow.restart().expect("it can be restarted");
            slow.stop();
            assert_eq!(slow.done().await, Outcome::Finished);
        },
    )
    .await;
    assert_eq!(report.part("slow").unwrap().restarts, 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_started_again_says_why_and_where() {
    let report = with_script(
        async |app| {
            app.task("once", until_stopped);
            app.restarting("over", Restart::default(), |_stop| async {});
            Ok(())
        },
        async |components| {
            let why = named(&components, "once")
                .restart()
                .unwrap_err()
                .to_string();
            assert!(why.starts_with("`once` (made at "), "{why}");
            assert!(why.contains("handles.rs:"), "{why}");
            assert!(why.contains("app.restarting"), "{why}");
            let over = named(&components, "over");
            over.done().await;
            let why = over.restart().unwrap_err().to_string();
            assert!(why.ends_with("it has ended"), "{why}");
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_what_was_told_to_stop_does_not_stop_the_service() {
    let report = with_script(
        async |app| {
            app.task("bad loser", |stop| async move {
                stop.requested().await;
                Err::<(), _>("no goodbye")
            });
            Ok(())
        },
        async |components| {
            let bad = named(&components, "bad loser");
            bad.stop();
            assert_eq!(bad.done().await, Outcome::Failed);
            tokio::time::sleep(secs(60)).await;
        },
    )
    .await;
    assert_eq!(
        report.cause().map(ToString::to_string).as_deref(),
        Some("requested: the script is over")
    );
    assert_eq!(report.exit(), Exit::Failed, "the exit code still tells");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_drops_what_does_not_end_and_counts_as_cut() {
    let dropped = Flag::default();
    let (theirs, seen) = (dropped.clone(), dropped.clone());
    let report = with_script(
        async move |app| {
            app.task("deaf", |_stop| async move {
                let _guard = theirs.on_drop();
                std::future::pending::<()>().await;
            });
            Ok(())
        },
        async move |components| {
            let deaf = named(&components, "deaf");
            deaf.cancel();
            assert_eq!(deaf.done().await, Outcome::Cancelled);
            assert!(seen.is_set());
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Cut, "{report}");
}

#[tokio::test(start_paused = true)]
async fn the_last_task_that_is_stopped_ends_the_service() {
    let report = calm()
        .run(async |app| {
            let only = app.task("only", until_stopped).start()?;
            only.stop();
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause().map(ToString::to_string).as_deref(),
        Some("all tasks ended")
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_in_use_is_told_where_the_builder_is_started() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("twin", until_stopped).start()?;
            let error = app.task("twin", until_stopped).start().unwrap_err();
            assert_eq!(error.to_string().matches("handles.rs:").count(), 2);
            let blocking = app.blocking("computes", |_stop| ()).start()?;
            assert_eq!(blocking.kind(), ComponentKind::Blocking);
            assert_eq!(blocking.done().await, Outcome::Finished);
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_is_added_late_has_the_same_rights() {
    let diary = Diary::default();
    let (early, late) = (diary.clone(), diary.clone());
    let report = with_script(
        async move |app| {
            app.resource("early", nothing())
                .stop(move |()| async move { early.write("early closed") })
                .await?;
            Ok(())
        },
        async move |components| {
            let added = components.add(async move |app| {
                let (close, end) = (late.clone(), late.clone());
                app.resource("late", nothing())
                    .stop(move |()| async move { close.write("late closed") })
                    .await?;
                app.on_cleanup("hook", move || async move { late.write("hook") });
                let task = app.task("late task", |stop| async move {
                    stop.requested().await;
                    tokio::time::sleep(secs(1)).await;
                    end.write("task ended");
                });
                Ok(task.limit(secs(3)).start()?)
            });
            let task = added.await.expect("they are added");
            assert_eq!(task.status(), ComponentStatus::Ready);
        },
    )
    .await;
    let order = ["task ended", "hook", "late closed", "early closed"];
    assert_eq!(diary.lines(), order, "{report}");
    assert_eq!(report.part("late task").unwrap().outcome, Outcome::Finished);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_in_use_is_an_error_of_the_one_that_adds() {
    let report = with_script(
        async |app| {
            app.task("twin", until_stopped);
            Ok(())
        },
        async |components| {
            let twice = components.add(async |app| {
                app.task("twin", until_stopped);
                Ok(())
            });
            let error = twice.await.unwrap_err().to_string();
            assert!(error.contains("two parts are named `twin`"), "{error}");
            assert_eq!(error.matches("handles.rs:").count(), 2, "{error}");
            // It goes on, and so does the first one.
            assert_eq!(named(&components, "twin").status(), ComponentStatus::Ready);
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert_eq!(report.parts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_up_what_is_being_added() {
    let report = stopped_after_a_second()
        .run(async |app| {
            let components = app.components();
            app.task("adds", |_stop| async move {
                let slow = components.add(async |app| {
                    let hangs = std::future::pending::<std::io::Result<()>>();
                    Ok(app.resource("hangs", hangs).await?)
                });
                let error = slow.await.unwrap_err().to_string();
                assert_eq!(error, "nothing was added: the service is stopping");
                let late = components.add(async |_app| Ok(())).await;
                assert!(late.is_err());
            });
            Ok(())
        })
        .await;
    assert_eq!(report.part("hangs").unwrap().outcome, Outcome::Cancelled);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_stops_alone() {
    use adieu::queue::{Job, MemoryQueue};
    let queue = MemoryQueue::new(secs(30));
    let (theirs, handled) = (queue.clone(), Arc::new(Notify::new()));
    let told = Arc::clone(&handled);
    let report = with_script(
        async move |app| {
            app.consume("orders", theirs, move |_job: Job| {
                told.notify_one();
                async {}
            });
            Ok(())
        },
        async move |components| {
            queue.push("tea");
            handled.notified().await;
            let orders = named(&components, "orders");
            orders.stop();
            assert_eq!(orders.done().await, Outcome::Finished);
            queue.push("cake");
            let second = tokio::time::timeout(secs(60), handled.notified()).await;
            assert!(second.is_err(), "nothing is taken any more");
        },
    )
    .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}
