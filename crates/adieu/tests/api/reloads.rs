//! Reload: all or nothing, in order, and a stop that comes in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use adieu::App;
use adieu::reload::Reloadable;
use adieu::report::Notice;
use adieu::signal::{Signal, StopSignal};
use adieu::testing::rehearse;

use crate::clues::Diary;

/// A source that counts its loads; from 1.
async fn counter(app: &mut App, name: &'static str) -> adieu::Result<Reloadable<u32>> {
    let count = Arc::new(AtomicU32::new(0));
    let load = move || {
        let count = Arc::clone(&count);
        async move { Ok::<_, std::io::Error>(count.fetch_add(1, Ordering::Relaxed) + 1) }
    };
    Ok(app.reload(name, load).await?)
}

async fn idle(stop: adieu::Stop) {
    stop.requested().await;
}

#[test]
fn every_part_applies_before_a_part_sees_the_new_value() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = rehearse(
        async move |app| {
            let value = counter(app, "config").await?;
            for part in ["first", "second"] {
                let (diary, seen) = (theirs.clone(), value.clone());
                value.apply(part, move |from, to| {
                    diary.write(format!("{part} {from}->{to}, seen {}", seen.get()));
                    async {}
                });
            }
            let mut mine = value.clone();
            let diary = theirs.clone();
            app.task("watcher", move |stop| async move {
                while let Some(now) = stop.until(mine.changed()).await {
                    diary.write(format!("changed to {now}"));
                }
            });
            Ok(())
        },
        async |world| {
            world.pass(Duration::from_secs(1)).await;
            world.signal(Signal::Hangup);
            world.pass(Duration::from_secs(1)).await;
            world.signal(Signal::Hangup);
            world.pass(Duration::from_secs(1)).await;
            world.signal(StopSignal::Terminate);
        },
    );
    assert_eq!(report.exit_code(), 0);
    let expected = [
        "first 1->2, seen 1",
        "second 1->2, seen 1",
        "changed to 2",
        "first 2->3, seen 2",
        "second 2->3, seen 2",
        "changed to 3",
    ];
    assert_eq!(diary.lines(), expected);
    let applied = |(_, notice): &&(Duration, Notice)| matches!(notice, Notice::Reloaded { .. });
    assert_eq!(report.timeline().iter().filter(applied).count(), 2);
}

#[test]
fn one_refusal_takes_everything_back_in_reverse() {
    for how in ["error", "panic", "hang"] {
        let diary = Diary::default();
        let theirs = diary.clone();
        let report = rehearse(
            async move |app| {
                let one = counter(app, "one").await?;
                let two = counter(app, "two").await?;
                for (part, value) in [("a", &one), ("b", &one), ("c", &two)] {
                    let diary = theirs.clone();
                    value.apply(part, move |from, to| {
                        diary.write(format!("{part} {from}->{to}"));
                        async {}
                    });
                }
                two.apply("refuser", move |_, _| async move {
                    match how {
                        "error" => Err("no, thank you"),
                        "panic" => panic!("no, thank you"),
                        _ => std::future::pending().await,
                    }
                });
                two.apply("never", |_, _| async { panic!("not after a refusal") });
                app.task("reader", move |stop| async move {
                    stop.requested().await;
                    assert_eq!((*one.get(), *two.get()), (1, 1));
                });
                Ok(())
            },
            async |world| {
                world.pass(Duration::from_secs(1)).await;
                world.signal(Signal::Hangup);
                world.pass(Duration::from_secs(60)).await;
                world.signal(StopSignal::Terminate);
            },
        );
        assert_eq!(report.exit_code(), 0, "{report}");
        let expected = ["a 1->2", "b 1->2", "c 1->2", "c 2->1", "b 2->1", "a 2->1"];
        assert_eq!(diary.lines(), expected, "{how}");
        let why = report
            .timeline()
            .iter()
            .find_map(|(_, notice)| match notice {
                Notice::ReloadRefused { part, failure } => Some((part.to_string(), failure)),
                _ => None,
            });
        let (part, failure) = why.expect("it is notified");
        assert_eq!(part, "refuser");
        let text = match how {
            "hang" => "longer than 30.0 s",
            _ => "no, thank you",
        };
        assert!(failure.to_string().contains(text), "{failure}");
    }
}

#[test]
fn a_check_refuses_before_anybody_applies() {
    let report = rehearse(
        async |app| {
            let one = counter(app, "one").await?;
            one.apply("never", |_, _| async { panic!("the check comes first") });
            let two = counter(app, "two").await?;
            two.check("odd", |new| if new % 2 == 1 { Ok(()) } else { Err("even") });
            app.task("idle", idle);
            Ok(())
        },
        async |world| {
            world.pass(Duration::from_secs(1)).await;
            world.signal(Signal::Hangup);
            world.pass(Duration::from_secs(1)).await;
            world.signal(StopSignal::Terminate);
        },
    );
    assert_eq!(report.exit_code(), 0);
    let refused =
        |notice: &Notice| matches!(notice, Notice::ReloadRefused { part, .. } if &**part == "odd");
    assert!(report.timeline().iter().any(|(_, notice)| refused(notice)));
}

/// The load, or a part's step, is running when the stop comes.
fn stop_during(step: bool) -> (adieu::Report, Vec<String>) {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = rehearse(
        async move |app| {
            let count = Arc::new(AtomicU32::new(0));
            let value = app
                .reload("config", move || {
                    let number = count.fetch_add(1, Ordering::Relaxed);
                    async move {
                        if number > 0 && !step {
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, std::io::Error>(number)
                    }
                })
                .await?;
            let diary = theirs.clone();
            value.apply("slow", move |from, to| {
                let diary = diary.clone();
                async move {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    diary.write(format!("{from}->{to}"));
                }
            });
            value.apply("never", |_, _| async { panic!("the stop came first") });
            let diary = theirs.clone();
            app.on_cleanup("look", move || async move {
                diary.write(format!("at the end {}", value.get()));
            });
            app.task("idle", idle);
            Ok(())
        },
        async |world| {
            world.pass(Duration::from_secs(1)).await;
            world.signal(Signal::Hangup);
            world.pass(Duration::from_secs(1)).await;
            world.signal(StopSignal::Terminate);
            world.signal(Signal::Hangup);
        },
    );
    let diary = diary.lines();
    (report, diary)
}

#[test]
fn a_stop_drops_a_load_at_once() {
    let (report, diary) = stop_during(false);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() < Duration::from_secs(1), "{report}");
    assert_eq!(diary, ["at the end 0"]);
}

#[test]
fn a_stop_lets_a_step_end_and_takes_it_back() {
    let (report, diary) = stop_during(true);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary, ["0->1", "1->0", "at the end 0"]);
}

#[test]
fn hangups_during_a_reload_are_one_more() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = rehearse(
        async move |app| {
            let value = counter(app, "config").await?;
            let diary = theirs.clone();
            value.apply("slow", move |_, to| {
                let diary = diary.clone();
                async move {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    diary.write(format!("{to}"));
                }
            });
            app.task("idle", idle);
            Ok(())
        },
        async |world| {
            for _ in 0..5 {
                world.signal(Signal::Hangup);
                world.pass(Duration::from_secs(1)).await;
            }
            world.pass(Duration::from_secs(60)).await;
            world.signal(StopSignal::Terminate);
        },
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), ["2", "3"]);
}

#[test]
fn what_cannot_be_loaded_at_the_start_fails_the_setup_by_name() {
    let report = rehearse(
        async |app| {
            let load = || async { Err::<u32, _>("no such file") };
            app.reload("config", load).await?;
            Ok(())
        },
        async |_| {},
    );
    assert_eq!(report.exit_code(), 1);
    let problem = report.problem().expect("it is notified").to_string();
    assert_eq!(problem, "`config` could not be loaded: no such file");
}

#[test]
fn a_failing_handler_is_told_and_stops_nothing() {
    let report = rehearse(
        async |app| {
            app.on_signal(Signal::User2, || async { Err("broken") });
            app.task("idle", idle);
            Ok(())
        },
        async |world| {
            world.signal(Signal::User2);
            world.pass(Duration::from_secs(1)).await;
            world.signal(StopSignal::Terminate);
        },
    );
    assert_eq!(report.exit_code(), 0);
    let told = |notice: &Notice| matches!(notice, Notice::SignalFailed { signal: Signal::User2, failure } if failure.to_string() == "broken");
    assert!(report.timeline().iter().any(|(_, notice)| told(notice)));
}

/// The signal comes when one source is registered, another is not, and `setup` waits for something else.
#[test]
fn a_hangup_in_the_middle_of_setup_is_kept_until_it_has_returned() {
    let diary = Diary::default();
    let (theirs, notices) = (diary.clone(), diary.clone());
    let report = rehearse(
        async move |app| {
            let early = counter(app, "early").await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            theirs.write(format!("early is {} when setup goes on", early.get()));
            let late = counter(app, "late").await?;
            app.task("worker", move |stop| async move {
                stop.requested().await;
                notices.write(format!("early {}, late {}", early.get(), late.get()));
            });
            Ok(())
        },
        async |world| {
            world.pass(Duration::from_secs(1)).await;
            world.signal(Signal::Hangup);
            world.pass(Duration::from_secs(3)).await;
            world.signal(StopSignal::Terminate);
        },
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    let expected = ["early is 1 when setup goes on", "early 2, late 2"];
    assert_eq!(diary.lines(), expected);
    let reloaded = report
        .timeline()
        .iter()
        .filter(|(_, it)| matches!(it, Notice::Reloaded { .. }));
    assert_eq!(reloaded.count(), 1, "{report}");
}
