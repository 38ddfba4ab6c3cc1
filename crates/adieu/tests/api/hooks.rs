//! Hooks: their moments, their order, their failures.

use adieu::report::{ComponentKind, Exit, Outcome};

use crate::clues::{Diary, calm, collapse, nothing};

#[tokio::test(start_paused = true)]
async fn they_run_at_their_moments_in_the_order_of_registration() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            let line = |line: &'static str| {
                let diary = theirs.clone();
                move || async move { diary.write(line) }
            };
            app.on_exit("exit 1", line("exit 1"));
            app.on_cleanup("cleanup 1", line("cleanup 1"));
            app.on_shutdown("shutdown 1", line("shutdown 1"));
            app.on_shutdown("shutdown 2", line("shutdown 2"));
            app.on_cleanup("cleanup 2", line("cleanup 2"));
            app.on_exit("exit 2", line("exit 2"));
            let close = line("close");
            app.resource("db", nothing())
                .stop(move |()| close())
                .await?;
            let done = line("task");
            app.task("worker", |stop| async move {
                stop.requested().await;
                done().await;
            });
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    let expected = [
        "shutdown 1",
        "shutdown 2",
        "task",
        "cleanup 1",
        "cleanup 2",
        "close",
        "exit 1",
        "exit 2",
    ];
    assert_eq!(diary.lines(), expected, "{report}");
    assert_eq!(report.part("exit 1").unwrap().kind, ComponentKind::ExitHook);
}

#[tokio::test(start_paused = true)]
async fn they_run_also_when_setup_fails() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            let first = theirs.clone();
            app.on_shutdown("tell", move || async move { first.write("tell") });
            app.on_exit("flush", move || async move { theirs.write("flush") });
            Err("no config".into())
        })
        .await;
    assert_eq!(diary.lines(), ["tell", "flush"], "{report}");
    assert_eq!(report.exit(), Exit::Failed);
}

#[tokio::test(start_paused = true)]
async fn one_that_panics_or_fails_stops_nothing_and_counts() {
    let report = calm()
        .run(async |app| {
            app.on_shutdown("panics", || async { collapse("no registry") });
            app.on_cleanup("fails", || async { Err::<(), _>("no disk") });
            app.on_exit("fine", || async {});
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    let outcome = |name| report.part(name).unwrap().outcome;
    assert_eq!(outcome("panics"), Outcome::Failed, "{report}");
    assert_eq!(outcome("fails"), Outcome::Failed);
    assert_eq!(outcome("fine"), Outcome::Finished);
    assert_eq!(report.exit(), Exit::Failed);
}
