//! Schedules on a paused clock: when runs start, what overlap and catch-up do, how a stop ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use adieu::report::Notice;
use adieu::schedule::{CatchUp, Overlap, Run};
use adieu::signal::StopSignal;
use adieu::state::FileStore;
use adieu::testing::{Rehearsal, rehearse};
use adieu::{App, Report};

use crate::clues::{Diary, secs};

/// The year 2000 began so many seconds after 1970.
const BEGIN: u64 = 946_684_800;

/// When the run was due, in seconds since the rehearsal began.
pub(crate) fn due(run: &Run) -> u64 {
    let since = run.scheduled().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs().saturating_sub(BEGIN))
}

pub(crate) async fn stop_after(world: Rehearsal, seconds: u64) {
    world.pass(secs(seconds)).await;
    world.signal(StopSignal::Terminate);
}

/// A job that writes when it began and ended, and takes so long.
pub(crate) fn job(
    diary: &Diary,
    takes: u64,
) -> impl Fn(Run) -> futures_util::future::BoxFuture<'static, ()> + use<> {
    let diary = diary.clone();
    move |run| {
        let diary = diary.clone();
        Box::pin(async move {
            diary.write(format!("{} begins", due(&run)));
            tokio::time::sleep(secs(takes)).await;
            diary.write(format!("{} ends", due(&run)));
        })
    }
}

pub(crate) fn begun(diary: &Diary) -> Vec<u64> {
    let lines = diary.lines();
    lines
        .iter()
        .filter_map(|line| line.strip_suffix(" begins")?.parse().ok())
        .collect()
}

fn problem(report: &Report) -> String {
    report
        .problem()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[test]
fn runs_come_at_their_interval_and_by_their_cron_line_to_the_second() {
    let (every, cron) = (Diary::default(), Diary::default());
    let (a, b) = (every.clone(), cron.clone());
    let report = rehearse(
        async move |app| {
            app.every("every", secs(60), job(&a, 0));
            app.cron("cron", "*/2 * * * *", "UTC", job(&b, 0));
            Ok(())
        },
        async |world| stop_after(world, 301).await,
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&every), [60, 120, 180, 240, 300]);
    assert_eq!(begun(&cron), [120, 240]);
}

#[test]
fn a_schedule_that_is_added_late_runs_until_the_scheduler_is_stopped() {
    let (first, late) = (Diary::default(), Diary::default());
    let (a, b) = (first.clone(), late.clone());
    let (give, given) = tokio::sync::oneshot::channel();
    let report = rehearse(
        async move |app| {
            app.every("first", secs(300), job(&a, 0));
            app.task("other", |stop| async move { stop.requested().await });
            give.send(app.components()).expect("it is awaited");
            Ok(())
        },
        async |world| {
            let components = given.await.expect("they are given");
            world.pass(secs(30)).await;
            let added = components.add(async move |app| {
                app.every("late", secs(60), job(&b, 0)).at_start();
                Ok(())
            });
            added.await.expect("it is added");
            world.pass(secs(100)).await;
            let add = async |name| {
                let adding = components.add(async move |app| {
                    app.every(name, secs(60), async |_run| ());
                    Ok(())
                });
                adding.await.map_err(|error| error.to_string())
            };
            let error = add("late").await.unwrap_err();
            assert!(error.contains("two schedules are named `late`"), "{error}");
            let scheduler = components.get("schedules").expect("it is a task");
            scheduler.stop();
            scheduler.done().await;
            let error = add("never").await.unwrap_err();
            assert!(error.contains("it would never run"), "{error}");
            stop_after(world, 1_000).await;
        },
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&late), [30, 90], "at once and after a minute");
    assert_eq!(begun(&first), [0_u64; 0]);
}

#[test]
fn each_policy_of_overlap() {
    // The stop comes at 86, and the drain lasts until 94.5: what began by 70 has ended, what began later is cut.
    for (overlap, code, expected) in [
        (Overlap::Skip, 0, vec![10, 40, 70]),
        (Overlap::QueueOne, 3, vec![10, 20, 40, 60]),
        (Overlap::Allow, 3, vec![10, 20, 30, 40, 50, 60, 70, 80]),
    ] {
        let diary = Diary::default();
        let theirs = diary.clone();
        let report = rehearse(
            async move |app| {
                app.every("job", secs(10), job(&theirs, 24))
                    .overlap(overlap);
                Ok(())
            },
            async |world| stop_after(world, 86).await,
        );
        assert_eq!(report.exit_code(), code, "{overlap:?}: {report}");
        assert_eq!(begun(&diary), expected, "{overlap:?}");
    }
}

#[test]
fn a_stop_lets_runs_finish_and_starts_none() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = rehearse(
        async move |app| {
            app.every("job", secs(10), job(&theirs, 12))
                .overlap(Overlap::QueueOne);
            Ok(())
        },
        async |world| stop_after(world, 21).await,
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), ["10 begins", "10 ends"]);
}

#[test]
fn a_run_that_fails_panics_or_takes_too_long_is_told_and_the_next_one_comes() {
    let count = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&count);
    let report = rehearse(
        async move |app| {
            let job = move |_| {
                let number = theirs.fetch_add(1, Ordering::Relaxed);
                async move {
                    match number {
                        0 => Err("it broke"),
                        1 => panic!("it burst"),
                        2 => std::future::pending().await,
                        _ => Ok(()),
                    }
                }
            };
            app.every("job", secs(10), job).timeout(secs(5));
            Ok(())
        },
        async |world| stop_after(world, 51).await,
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(count.load(Ordering::Relaxed), 5);
    let told: Vec<_> = report
        .timeline()
        .iter()
        .filter_map(|(_, notice)| match notice {
            Notice::RunFailed { failure, .. } => Some(failure.causes.join(": ")),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            "it broke",
            "panicked: it burst",
            "it took longer than 5.00 s"
        ]
    );
}

#[test]
fn after_a_suspend_each_policy_of_catching_up() {
    for (catch_up, expected) in [
        (CatchUp::Once, vec![60, 600, 660]),
        (CatchUp::Skip, vec![60, 660]),
        (CatchUp::Each(3), vec![60, 480, 540, 600, 660]),
    ] {
        let diary = Diary::default();
        let theirs = diary.clone();
        let report = rehearse(
            async move |app| {
                app.cron("job", "* * * * *", "UTC", job(&theirs, 0))
                    .catch_up(catch_up)
                    .overlap(Overlap::Allow);
                Ok(())
            },
            async |world| {
                world.pass(secs(70)).await;
                world.set_clock(world.clock() + secs(560)); // 630
                stop_after(world, 31).await;
            },
        );
        assert_eq!(report.exit_code(), 0, "{report}");
        assert_eq!(begun(&diary), expected, "{catch_up:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing_and_stops_nothing() {
    let (every, cron) = (Diary::default(), Diary::default());
    let (a, b) = (every.clone(), cron.clone());
    let report = rehearse(
        async move |app| {
            app.every("every", secs(60), job(&a, 0));
            app.cron("cron", "* * * * *", "UTC", job(&b, 0));
            Ok(())
        },
        async |world| {
            world.pass(secs(130)).await;
            world.set_clock(world.clock() - secs(100)); // 30
            stop_after(world, 181).await; // 211
        },
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    // The interval goes on as if nothing was: 50 seconds were left of it.
    assert_eq!(begun(&every), [60, 120, 80, 140, 200]);
    assert_eq!(begun(&cron), [60, 120, 180]);
}

#[test]
fn one_that_runs_at_the_start_and_jitter_that_stays_in_its_bounds() {
    let (start, late) = (Diary::default(), Diary::default());
    let (a, b) = (start.clone(), late.clone());
    let report = rehearse(
        async move |app| {
            app.every("start", secs(60), job(&a, 0)).at_start();
            let began = tokio::time::Instant::now();
            app.every("late", secs(60), move |_| {
                b.write(format!("{} begins", began.elapsed().as_secs()));
                async {}
            })
            .jitter(secs(30));
            Ok(())
        },
        async |world| stop_after(world, 641).await,
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&start)[..3], [0, 60, 120]);
    let late = begun(&late);
    assert!(late.len() >= 9, "{late:?}");
    for (number, at) in (1..).zip(&late) {
        let on_time = number * 60;
        assert!((on_time..=on_time + 31).contains(at), "{late:?}");
    }
}

#[test]
fn what_cannot_be_is_an_error_at_the_start_that_says_what_to_do() {
    let refused = |setup: fn(&mut App)| {
        let report = rehearse(
            async move |app| {
                setup(app);
                Ok(())
            },
            async |_| {},
        );
        assert_eq!(report.exit_code(), 2, "{report}");
        problem(&report)
    };
    let text = refused(|app| drop(app.cron("digest", "61 * * * *", "UTC", |_| async {})));
    assert!(
        text.contains("schedule `digest` (at ")
            && text.contains("`61 * * * *` is not a cron expression"),
        "{text}"
    );
    let text = refused(|app| drop(app.cron("digest", "0 6 * * *", "Europe/Berlni", |_| async {})));
    assert!(
        text.contains("unknown time zone `Europe/Berlni`: write it like `Europe/Berlin`"),
        "{text}"
    );
    let text = refused(|app| drop(app.cron("digest", "0 0 30 2 *", "UTC", |_| async {})));
    assert!(text.contains("its time never comes"), "{text}");
    let text = refused(|app| drop(app.every("sweep", Duration::ZERO, |_| async {})));
    assert!(text.contains("at least a millisecond"), "{text}");
    let text = refused(|app| {
        app.every("sweep", secs(1), |_| async {});
        app.every("sweep", secs(2), |_| async {});
    });
    assert!(text.contains("two schedules are named `sweep`"), "{text}");
}

/// One life on a store; the clock begins at this second.
fn life(folder: &std::path::Path, diary: &Diary, from: u64, seconds: u64) -> Report {
    let (folder, theirs) = (folder.to_owned(), diary.clone());
    rehearse(
        async move |app| {
            let store = app.store(FileStore::open(folder)).await?;
            app.cron("job", "*/10 * * * *", "UTC", job(&theirs, 0))
                .remember(&store);
            Ok(())
        },
        async |world| {
            world.set_clock(UNIX_EPOCH + secs(BEGIN + from));
            stop_after(world, seconds).await;
        },
    )
}

#[test]
fn the_last_run_is_kept_and_what_was_missed_while_down_is_made_up_for() {
    let (folder, diary) = (tempfile::tempdir().expect("a directory"), Diary::default());
    let report = life(folder.path(), &diary, 0, 1_210);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&diary), [600, 1_200]);
    // Down from 1210 to 1500: nothing was missed.
    let report = life(folder.path(), &diary, 1_500, 60);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&diary).len(), 2);
    // Down until 4000: one run for the three that were missed.
    let report = life(folder.path(), &diary, 4_000, 60);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&diary)[2..], [3_600]);
}

#[test]
fn a_clock_in_the_future_is_not_waited_for() {
    let (folder, diary) = (tempfile::tempdir().expect("a directory"), Diary::default());
    let report = life(folder.path(), &diary, 400_000_000, 700);
    assert_eq!(report.exit_code(), 0, "{report}");
    let before = begun(&diary).len();
    assert_eq!(before, 1);
    let report = life(folder.path(), &diary, 0, 700);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(begun(&diary)[before..], [600]);
}
