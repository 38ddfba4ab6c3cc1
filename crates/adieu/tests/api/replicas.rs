//! Two replicas in one process share a store and a paused clock.

use std::sync::{Arc, Mutex};

use adieu::App;
use adieu::schedule::Run;
use adieu::testing::Rehearsal;

use crate::clues::{Diary, secs};
use crate::schedules::{begun, due, job, stop_after};
use crate::shared::{Shared, together, told};

#[test]
fn of_three_replicas_one_runs_each_time() {
    let (shared, diary) = (Shared::default(), Diary::default());
    together(async {
        let replica = || {
            let (shared, diary) = (shared.apart(), diary.clone());
            adieu::testing::replica(
                async move |app: &mut App| {
                    app.every("job", secs(10), job(&diary, 2))
                        .one_replica(&shared.handle(), secs(6));
                    Ok(())
                },
                async |world: Rehearsal| stop_after(world, 65).await,
            )
        };
        let (a, b, c) = tokio::join!(replica(), replica(), replica());
        for report in [a, b, c] {
            assert_eq!(report.exit_code(), 0, "{report}");
        }
    });
    assert_eq!(begun(&diary), [10, 20, 30, 40, 50, 60]);
}

#[test]
fn one_that_is_cut_off_loses_its_run_and_another_takes_over_within_the_lease() {
    let (shared, diary) = (Shared::default(), Diary::default());
    together(async {
        let first = shared.apart();
        let replica = |name: &'static str, store: Shared| {
            let diary = diary.clone();
            adieu::testing::replica(
                async move |app: &mut App| {
                    app.cron("job", "* * * * *", "UTC", move |run| {
                        let diary = diary.clone();
                        async move {
                            let state = run.state::<u32>("total")?;
                            let began = diary.clone();
                            began.write(format!("{name} at {}", due(&run)));
                            tokio::time::sleep(secs(20)).await;
                            let total = state.load().await?.unwrap_or(0);
                            state.save(total + 1).await?;
                            began.write(format!("{name} done, total {}", total + 1));
                            Ok::<(), adieu::BoxError>(())
                        }
                    })
                    .one_replica(&store.handle(), secs(9));
                    Ok(())
                },
                async |world: Rehearsal| stop_after(world, 110).await,
            )
        };
        let script = async {
            // The first has claimed the run of the first minute by then.
            tokio::time::sleep(secs(62)).await;
            first.cut(true);
            tokio::time::sleep(secs(40)).await;
            first.cut(false);
        };
        let (a, b, ()) = tokio::join!(
            replica("first", first.clone()),
            replica("second", shared.apart()),
            script
        );
        // A run that is lost is reported, and does not fail the test.
        assert_eq!((a.exit_code(), b.exit_code()), (0, 0), "{a}{b}");
        assert_eq!(told(&a).len(), 1, "{a}");
        assert!(told(&a)[0].contains("the lease was lost"), "{a}");
        assert!(told(&b).is_empty(), "{b}");
    });
    assert_eq!(
        diary.lines(),
        ["first at 60", "second at 60", "second done, total 1"]
    );
}

/// A lease of an hour, and no other replica waits for the end of it. The clock of the second begins where that of the first did.
#[test]
fn a_run_that_is_cut_by_the_stop_gives_its_lease_back() {
    let (shared, diary) = (Shared::default(), Diary::default());
    together(async {
        let theirs = shared.apart();
        let cut = adieu::testing::replica(
            async move |app: &mut App| {
                app.every("job", secs(60), |_run| std::future::pending::<()>())
                    .one_replica(&theirs.handle(), secs(3_600));
                Ok(())
            },
            async |world: Rehearsal| stop_after(world, 62).await,
        );
        let report = cut.await;
        assert_eq!(report.exit_code(), 3, "{report}");
        let (theirs, ours) = (shared.apart(), diary.clone());
        let next = adieu::testing::replica(
            async move |app: &mut App| {
                app.every("job", secs(60), job(&ours, 2))
                    .one_replica(&theirs.handle(), secs(3_600));
                Ok(())
            },
            async |world: Rehearsal| stop_after(world, 130).await,
        );
        let report = next.await;
        assert_eq!(report.exit_code(), 0, "{report}");
    });
    assert_eq!(begun(&diary), [60, 120]);
}

#[test]
fn a_run_that_was_overtaken_can_change_nothing() {
    let (shared, diary) = (Shared::default(), Diary::default());
    let (old_run, new_run) = (
        tokio::sync::oneshot::channel(),
        tokio::sync::oneshot::channel(),
    );
    together(async {
        // A run that hands its handle out, as one that goes on after a pause of its process.
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
            first.cut(true);
            let new: Run = new_run.1.await.expect("another run");
            first.cut(false);
            assert!(new.fencing_token() > old.fencing_token());
            assert_eq!(new.scheduled(), old.scheduled());
            // Both at the same moment, the old one first: it is refused by the token of the lease alone.
            let error = state.save(100).await.expect_err("it was overtaken");
            assert!(
                error.to_string().contains("belongs to a later run"),
                "{error}"
            );
            let theirs = new.state::<u32>("total").expect("it has a store");
            assert_eq!(theirs.load().await.expect("it has the lease"), Some(1));
            theirs.save(2).await.expect("it has the lease");
            assert!(state.load().await.is_err());
            assert_eq!(theirs.load().await.expect("as before"), Some(2));
            diary.write("checked");
        };
        let (a, b, ()) = tokio::join!(
            replica(first.clone(), old_run.0),
            async {
                // Started a moment later, so that the first one has the lease.
                tokio::time::sleep(secs(1)).await;
                replica(shared.apart(), new_run.0).await
            },
            script
        );
        assert_eq!((a.exit_code(), b.exit_code()), (0, 0), "{a}{b}");
        assert_eq!(told(&a).len(), 1, "{a}");
        assert!(told(&b).is_empty(), "{b}");
    });
    assert_eq!(diary.lines(), ["checked"]);
}
