//! A life cycle inside a larger program: several, nested, dropped half-way, in the wrong place (R5, R22).

use std::future::pending;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use adieu::report::{Cause, Exit, Notice};
use tokio::sync::oneshot;

use crate::clues::{Diary, Flag, calm, millis, nothing, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn several_at_once_stop_each_on_its_own() {
    let scope = |name: &'static str, seconds| {
        adieu::scope(name)
            .stop_when(tokio::time::sleep(secs(seconds)))
            .run(async |app| {
                app.resource("db", nothing()).await?;
                app.task("worker", |stop| async move { stop.requested().await });
                Ok(())
            })
    };
    let began = tokio::time::Instant::now();
    let timed = async |report: adieu::Report| {
        (
            report.service().to_owned(),
            report.exit_code(),
            began.elapsed().as_secs(),
        )
    };
    let (one, two, three) = tokio::join!(
        async { timed(scope("one", 3).await).await },
        async { timed(scope("two", 1).await).await },
        async { timed(scope("three", 2).await).await },
    );
    assert_eq!(one, ("one".to_owned(), 0, 3));
    assert_eq!(two, ("two".to_owned(), 0, 1));
    assert_eq!(three, ("three".to_owned(), 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_scope_lives_inside_a_task_of_another() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("outer", |stop| async move {
                let trigger = {
                    let stop = stop.clone();
                    async move { stop.requested().await }
                };
                let inner = adieu::scope("inner").stop_when(trigger).run(async |app| {
                    app.task("worker", |stop| async move { stop.requested().await });
                    Ok(())
                });
                assert_eq!(inner.await.exit_code(), 0);
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// Runs a scope whose future is dropped at `moment`; gives the causes heard and the diary of its closes.
async fn dropped(setup_hangs: bool) -> (Vec<String>, Vec<String>) {
    let (closes, causes) = (Diary::default(), Diary::default());
    let (diary, heard) = (closes.clone(), causes.clone());
    let (end, ended) = oneshot::channel();
    let mut end = Some(end);
    let scope = calm()
        .on_notice(move |notice| match notice {
            Notice::Stopping { cause } => heard.write(cause.to_string()),
            Notice::Ended { .. } => drop(end.take().map(|end| end.send(()))),
            _ => {}
        })
        .run(async move |app| {
            for name in ["one", "two"] {
                let diary = diary.clone();
                app.resource(name, nothing())
                    .stop(move |()| async move { diary.write(name) })
                    .await?;
            }
            app.task("worker", |stop| async move { stop.requested().await });
            if setup_hangs {
                pending::<()>().await;
            }
            Ok(())
        });
    assert!(
        tokio::time::timeout(secs(1), scope).await.is_err(),
        "it is dropped here"
    );
    ended.await.expect("the stop goes on in the background");
    (causes.lines(), closes.lines())
}

#[tokio::test(start_paused = true)]
async fn dropped_while_running_it_still_closes() {
    let (causes, closes) = dropped(false).await;
    assert_eq!(closes, ["two", "one"]);
    assert_eq!(causes, ["requested: the scope was dropped"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_in_the_middle_of_setup_it_still_closes() {
    let (causes, closes) = dropped(true).await;
    assert_eq!(closes, ["two", "one"]);
    assert_eq!(causes, ["requested: the scope was dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_never_comes_is_dropped_at_the_end() {
    let dropped = Flag::default();
    let guard = dropped.on_drop();
    let trigger = async move {
        let _guard = guard;
        pending::<()>().await;
    };
    let report = calm()
        .stop_when(trigger)
        .run(async |app| {
            app.task("once", |_stop| async {});
            Ok(())
        })
        .await;
    assert_eq!(report.cause(), Some(&Cause::AllTasksEnded), "{report}");
    tokio::time::sleep(millis(1)).await;
    assert!(dropped.is_set());
}

#[tokio::test(start_paused = true)]
async fn only_the_first_reason_counts() {
    let report = calm()
        .run(async |app| {
            let handle = app.shutdown_handle();
            handle.stop("first");
            handle.stop("second");
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause(),
        Some(&Cause::Requested("first".into())),
        "{report}"
    );
}

#[tokio::test]
async fn a_service_inside_a_runtime_is_refused_with_what_to_call_instead() {
    let ran = Flag::default();
    let report = adieu::service("nested")
        .print(adieu::report::PrintReport::Never)
        .run(async |_app| {
            ran.set();
            Ok(())
        });
    assert!(!ran.is_set());
    assert_eq!(report.exit(), Exit::Usage);
    assert!(report.cause().is_none());
    let problem = report.problem().expect("it says why").to_string();
    assert!(
        problem.contains("adieu::scope(name).run(setup).await"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_on_a_blocking_thread_of_a_runtime_is_refused_too() {
    let nested = tokio::task::spawn_blocking(|| {
        let service = adieu::service("nested").print(adieu::report::PrintReport::Never);
        service.run(async |_app| Ok(())).exit_code()
    });
    assert_eq!(nested.await.expect("no panic"), 2);
}

#[test]
fn a_scope_outside_a_runtime_is_refused_with_what_to_call_instead() {
    let scope = pin!(adieu::scope("lonely").run(async |_app| Ok(())));
    let Poll::Ready(report) = scope.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it answers at once")
    };
    assert_eq!(report.exit(), Exit::Usage);
    let problem = report.problem().expect("it says why").to_string();
    assert!(
        problem.contains("adieu::service(name).run(setup)"),
        "{problem}"
    );
}

#[test]
fn a_scope_on_a_runtime_without_timers_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(adieu::scope("timeless").run(async |app| {
        app.task("worker", |stop| async move { stop.requested().await });
        app.shutdown_handle().stop("enough");
        Ok(())
    }));
    assert_eq!(report.exit(), Exit::Usage, "{report}");
    let problem = report.problem().expect("it says why").to_string();
    assert!(problem.contains("enable_time"), "{problem}");
}

#[tokio::test]
async fn a_grace_of_zero_is_refused_before_setup() {
    let ran = Flag::default();
    let report = adieu::scope("hasty").grace(secs(0)).run(async |_app| {
        ran.set();
        Ok(())
    });
    assert_eq!(report.await.exit(), Exit::Usage);
    assert!(!ran.is_set());
}

#[tokio::test(start_paused = true)]
async fn the_longest_grace_is_no_overflow() {
    let report = adieu::scope("patient")
        .grace(std::time::Duration::MAX)
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.task("once", |_stop| async {});
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}
