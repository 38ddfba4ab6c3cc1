//! Leases at the instant in which they are lost, and clocks that are wrong.

use std::sync::{Arc, Mutex};

use adieu::schedule::Run;
use adieu::testing::Rehearsal;
use adieu::{App, Report};

use crate::clues::{Diary, millis, secs};
use crate::schedules::{begun, job, stop_after};
use crate::shared::{Shared, together, told};

/// A replica that ticks every second for as long as it may, under a lease of nine seconds, from the first minute on.
async fn ticking(shared: &Shared, diary: &Diary, script: impl AsyncFnOnce(&Rehearsal)) -> Report {
    let diary = diary.clone();
    let store = shared.handle();
    adieu::testing::replica(
        async move |app: &mut App| {
            app.cron("job", "* * * * *", "UTC", move |_| {
                let diary = diary.clone();
                async move {
                    for second in 0..40 {
                        diary.write(second.to_string());
                        tokio::time::sleep(secs(1)).await;
                    }
                }
            })
            .one_replica(&store, secs(9));
            Ok(())
        },
        async |world: Rehearsal| {
            script(&world).await;
            world.signal(adieu::signal::StopSignal::Terminate);
        },
    )
    .await
}

/// The renewal that is sent after three seconds is not answered: the lease is over after nine, and only an answer to the
/// renewal lets the work go on.
#[test]
fn work_does_not_go_on_past_its_lease() {
    for (answered, last) in [(None, 8), (Some(11), 39)] {
        let (shared, diary) = (Shared::default(), Diary::default());
        together(async {
            let script = async |world: &Rehearsal| {
                world.pass(secs(61)).await;
                shared.hold("schedule.job");
                shared.is_held().await; // 63
                world.pass(millis(6_500)).await; // 69.5
                assert_eq!(diary.lines().last().map(|line| &**line), Some("8"));
                if let Some(answered) = answered {
                    world.pass(secs(60 + answered) - millis(69_500)).await;
                    assert_eq!(diary.lines().last().map(|line| &**line), Some("8"));
                    shared.release();
                } else {
                    world.pass(secs(5)).await; // the renewal is given up after another lease
                    shared.release();
                }
                world.pass(secs(35)).await;
            };
            let report = ticking(&shared, &diary, script).await;
            assert_eq!(report.exit_code(), 0, "{report}");
            let lost = usize::from(answered.is_none());
            assert_eq!(told(&report).len(), lost, "{report}");
        });
        let last = last.to_string();
        assert_eq!(diary.lines().last(), Some(&last), "{answered:?}");
    }
}

/// The wall clock is set back while the store is away: by it, the lease would last for another hour.
#[test]
fn a_clock_that_is_set_back_does_not_lengthen_a_lease() {
    let (shared, diary) = (Shared::default(), Diary::default());
    together(async {
        let script = async |world: &Rehearsal| {
            world.pass(millis(62_500)).await;
            shared.cut(true);
            world.set_clock(world.clock() - secs(3_600));
            world.pass(secs(60)).await;
            shared.cut(false);
        };
        let report = ticking(&shared, &diary, script).await;
        assert_eq!(report.exit_code(), 0, "{report}");
        assert!(told(&report)[0].contains("the lease was lost"), "{report}");
    });
    // Claimed at the minute, never renewed.
    assert_eq!(diary.lines().last().map(|line| &**line), Some("8"));
}

/// An older run has looked, and its save is on its way when a later run takes over and looks: what that one has seen
/// stays as it is.
#[test]
fn a_save_between_the_look_and_the_swap_of_an_older_run_is_refused() {
    let (shared, diary) = (Shared::default(), Diary::default());
    let (old_run, new_run) = (
        tokio::sync::oneshot::channel(),
        tokio::sync::oneshot::channel(),
    );
    together(async {
        let replica = |store: Shared, hand: tokio::sync::oneshot::Sender<Run>| {
            let hand = Arc::new(Mutex::new(Some(hand)));
            adieu::testing::replica(
                async move |app: &mut App| {
                    app.every("job", secs(60), move |run: Run| {
                        let hand = hand.lock().expect("no panic").take();
                        async move {
                            if let Some(hand) = hand {
                                let _ = hand.send(run.clone());
                                let _ = run.stop().sleep(secs(40)).await;
                            }
                        }
                    })
                    .one_replica(&store.handle(), secs(9));
                    Ok(())
                },
                async |world: Rehearsal| stop_after(world, 130).await,
            )
        };
        let first = shared.apart();
        let script = async {
            let old: Run = old_run.1.await.expect("a run");
            let state = old.state::<u32>("total").expect("it has a store");
            state.save(1).await.expect("it has the lease");
            first.hold("total");
            let saving = tokio::spawn(async move { state.save(100).await });
            first.is_held().await;
            first.cut(true);
            let new: Run = new_run.1.await.expect("another run");
            first.cut(false);
            let theirs = new.state::<u32>("total").expect("it has a store");
            assert_eq!(theirs.load().await.expect("it has the lease"), Some(1));
            first.release();
            let error = saving.await.expect("no panic").expect_err("overtaken");
            assert!(
                error.to_string().contains("belongs to a later run"),
                "{error}"
            );
            assert_eq!(theirs.load().await.expect("as before"), Some(1));
            theirs.save(2).await.expect("it has the lease");
            diary.write("checked");
        };
        let (a, b, ()) = tokio::join!(
            replica(first.clone(), old_run.0),
            async {
                tokio::time::sleep(secs(1)).await;
                replica(shared.apart(), new_run.0).await
            },
            script
        );
        assert_eq!((a.exit_code(), b.exit_code()), (0, 0), "{a}{b}");
    });
    assert_eq!(diary.lines(), ["checked"]);
    assert_eq!(shared.value("total")["value"], 2);
}

/// What a replica leaves whose clock is a year ahead: the others go on, say so once, and repair it.
#[test]
fn a_clock_that_is_a_year_ahead_does_not_silence_the_others() {
    const YEAR: u64 = 31_536_000;
    let at = |seconds: u64| (946_684_800 + seconds) * 1_000_000_000;
    for (left, expected, words) in [
        // It ran, in a year.
        (
            format!(r#"{{"done":{},"token":7}}"#, at(YEAR)),
            vec![10, 20, 30, 40],
            Some("was last done"),
        ),
        // It was killed while it had the lease.
        (
            format!(
                r#"{{"done":null,"token":7,"holder":"other","until":{}}}"#,
                at(YEAR)
            ),
            vec![10, 20, 30, 40],
            Some("is held by another replica"),
        ),
        // Clocks that differ a little are waited for.
        (
            format!(
                r#"{{"done":null,"token":7,"holder":"other","until":{}}}"#,
                at(20)
            ),
            vec![20, 30, 40],
            None,
        ),
        (
            format!(r#"{{"done":{},"token":7}}"#, at(14)),
            vec![20, 30, 40],
            None,
        ),
        // One of another version of the service, whose lease is longer.
        (
            format!(
                r#"{{"done":null,"token":7,"holder":"other","until":{},"term":60000000000}}"#,
                at(35)
            ),
            vec![30, 40],
            None,
        ),
    ] {
        let (shared, diary) = (Shared::default(), Diary::default());
        shared.leave("schedule.job", left.clone());
        together(async {
            let (theirs, store) = (diary.clone(), shared.handle());
            let report = adieu::testing::replica(
                async move |app: &mut App| {
                    app.every("job", secs(10), job(&theirs, 0))
                        .one_replica(&store, secs(6));
                    Ok(())
                },
                async |world: Rehearsal| stop_after(world, 45).await,
            )
            .await;
            assert_eq!(report.exit_code(), 0, "{report}");
            let told = told(&report);
            assert_eq!(told.len(), usize::from(words.is_some()), "{left}: {told:?}");
            if let Some(words) = words {
                assert!(told[0].contains(words), "{told:?}");
                assert!(told[0].contains("8760 h ahead"), "{told:?}");
            }
        });
        assert_eq!(begun(&diary), expected, "{left}");
        assert_eq!(shared.value("schedule.job")["done"], at(40), "repaired");
    }
}
