//! The third signal in a scope: the end comes at once, and what is left behind knows it.

use std::future::pending;

use adieu::Stop;
use adieu::report::Outcome;
use adieu::signal::StopSignal;
use adieu::testing::rehearse;

use crate::clues::{Flag, secs};

#[test]
fn whatever_is_left_is_told_and_named() {
    let cut = Flag::default();
    let guard = cut.on_drop();
    let (keep, kept) = std::sync::mpsc::channel::<Stop>();
    let after = cut.clone();
    let report = rehearse(
        async move |app| {
            keep.send(app.stop()).expect("the test listens");
            app.on_shutdown("stuck", pending::<()>);
            app.task("worker", |stop| async move {
                drop(stop.spawn("child", pending::<()>()).expect("running"));
                let _guard = guard;
                pending::<()>().await;
            });
            Ok(())
        },
        async move |world| {
            world.pass(secs(1)).await;
            for _ in 0..3 {
                world.signal(StopSignal::Interrupt);
            }
            world.pass(secs(1)).await;
            assert!(after.is_set(), "the task left behind was cancelled");
        },
    );
    assert_eq!(report.exit_code(), 130, "{report}");
    assert_eq!(report.part("worker").unwrap().outcome, Outcome::Abandoned);
    assert_eq!(report.lost().len(), 1, "the child is named: {report}");
    let stop = kept.recv().expect("setup has run");
    assert!(stop.is_requested());
}
