//! The sweep finds what it is for: services that break a promise only when they are stopped at one await point.

use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use adieu::testing::{Swept, sweep};
use adieu::{App, Stop};

use crate::clues::{Flag, millis, nothing, secs};

/// What the sweep says when it panics; `None` if it does not.
fn found(run: impl FnOnce() -> Swept) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    panic.downcast::<String>().ok().map(|words| *words)
}

/// Awaits three times; says whether the stop came in the middle one.
async fn stopped_in_the_middle(stop: &Stop) -> bool {
    tokio::time::sleep(millis(5)).await;
    let before = stop.is_requested();
    tokio::time::sleep(millis(5)).await;
    let after = stop.is_requested();
    stop.requested().await;
    after && !before
}

async fn idle(stop: Stop) {
    stop.requested().await;
}

/// The words of a sweep over a service whose task `picky` is polled between two others.
fn found_with<F>(picky: F) -> String
where
    F: AsyncFn(&mut App),
{
    let setup = async |app: &mut App| {
        app.resource("db", nothing()).await?;
        app.task("before", idle);
        picky(app).await;
        app.task("after", idle);
        Ok(())
    };
    found(|| sweep(setup).lasting(secs(1)).run()).expect("a promise is broken")
}

/// Each task waits once at the beginning: `before` is at 1, `picky` at 2 and 4, `after` at 3.
const IN_PICKY: &str = "stopped at await point 4 of 5, in picky broke a promise";

#[test]
fn an_end_that_is_not_clean() {
    let words = found_with(async |app| {
        app.task("picky", |stop| async move {
            match stopped_in_the_middle(&stop).await {
                true => Err(std::io::Error::other("half of it is done")),
                false => Ok(()),
            }
        });
    });
    assert!(words.contains(IN_PICKY), "{words}");
    assert!(words.contains("the end was not clean: exit 1"), "{words}");
    assert!(words.contains("half of it is done"), "{words}");
}

#[test]
fn work_that_is_cut() {
    let words = found_with(async |app| {
        app.task("picky", |stop| async move {
            if stopped_in_the_middle(&stop).await {
                pending::<()>().await;
            }
        });
    });
    assert!(words.contains(IN_PICKY), "{words}");
    assert!(words.contains("the end was not clean: exit 3"), "{words}");
}

#[test]
fn a_part_that_is_left_behind() {
    let words = found_with(async |app| {
        let (tell, told) = std::sync::mpsc::channel();
        let _ = app
            .resource("cache", nothing())
            .stop(move |()| async move {
                if told.recv() == Ok(true) {
                    pending::<()>().await;
                }
            })
            .await;
        app.task("picky", |stop| async move {
            let _ = tell.send(stopped_in_the_middle(&stop).await);
        });
    });
    assert!(words.contains(IN_PICKY), "{words}");
    assert!(words.contains("resource `cache` was abandoned"), "{words}");
}

#[test]
fn an_await_point_of_setup_is_named_so() {
    let setup = async |app: &mut App| {
        let is_set_up = Flag::default();
        let verified = is_set_up.clone();
        app.on_exit("verify", move || async move {
            match verified.is_set() {
                true => Ok(()),
                false => Err(std::io::Error::other("half of it is set up")),
            }
        });
        tokio::time::sleep(millis(5)).await;
        is_set_up.set();
        app.task("worker", idle);
        Ok(())
    };
    let words = found(|| sweep(setup).lasting(secs(1)).run()).expect("a promise is broken");
    let named = "stopped at await point 1 of 2, in setup broke a promise";
    assert!(words.contains(named), "{words}");
    assert!(words.contains("half of it is set up"), "{words}");
}

/// A service with three await points before its stop.
async fn three_points(app: &mut App) -> adieu::Result {
    app.task("worker", |stop| async move {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(stop);
    });
    Ok(())
}

#[test]
fn no_more_points_are_tried_than_asked_for() {
    let all = sweep(three_points).run();
    assert_eq!((all.points(), all.is_complete()), (3, true));
    for (most, complete) in [(0, false), (2, false), (3, true), (4, true)] {
        let runs = Rc::new(Cell::new(0));
        let count = Rc::clone(&runs);
        let swept = sweep(three_points)
            .at_most(most)
            .check(move |_| count.set(count.get() + 1))
            .run();
        assert_eq!(swept.points(), most.min(3));
        assert_eq!(swept.is_complete(), complete, "{most}");
        assert_eq!(runs.get(), most.min(3) + 1, "and once undisturbed");
    }
}

#[test]
fn a_service_that_fails_on_purpose_is_fine_if_that_was_said() {
    let fails = async |app: &mut App| {
        app.task("importer", |_stop| async move {
            tokio::time::sleep(millis(5)).await;
            Err::<(), _>(std::io::Error::other("no more rows"))
        });
        Ok(())
    };
    let words = found(|| sweep(fails).run()).expect("a failure is not a clean end");
    assert!(
        words.contains("the undisturbed run broke a promise"),
        "{words}"
    );
    let swept = sweep(fails).failures_are_fine().run();
    assert_eq!((swept.points(), swept.is_complete()), (1, true));
}

#[test]
fn work_that_is_cut_is_not_fine_where_failures_are() {
    let hangs = async |app: &mut App| {
        app.task("stuck", |_stop| pending::<()>());
        Ok(())
    };
    let words = found(|| sweep(hangs).failures_are_fine().run()).expect("it is cut");
    assert!(words.contains("the end was not clean: exit 3"), "{words}");
}
