//! Typed events for code: each once, in order, whatever the listener does.

use adieu::report::{Exit, Notice, Phase};

use crate::clues::{Diary, calm, nothing};

fn line(notice: &Notice) -> String {
    match notice {
        Notice::Opening { part } => format!("opening {part}"),
        Notice::Opened { part } => format!("opened {part}"),
        Notice::Running => "running".to_owned(),
        Notice::Stopping { cause } => format!("stopping {cause}"),
        Notice::Phase { phase, .. } => format!("phase {phase}"),
        Notice::Closing { part, .. } => format!("closing {part}"),
        Notice::Settled { part, outcome, .. } => format!("{outcome} {part}"),
        Notice::Ended { exit } => format!("ended {}", exit.code()),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_life_in_order() {
    let diary = Diary::default();
    let heard = diary.clone();
    let report = calm()
        .on_notice(move |notice| heard.write(line(notice)))
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.task("worker", |stop| async move { stop.requested().await });
            let handle = app.shutdown_handle();
            app.task("trigger", move |_stop| async move { handle.stop("enough") });
            Ok(())
        })
        .await;
    assert_eq!(
        diary.lines(),
        [
            "opening db",
            "opened db",
            "running",
            "stopping requested: enough",
            "phase announce",
            "phase drain",
            "finished trigger",
            "finished worker",
            "phase cancel",
            "phase release",
            "closing db",
            "closed db",
            "phase save",
            "ended 0",
        ]
    );
    let kept: Vec<_> = report
        .timeline()
        .iter()
        .map(|(_, notice)| line(notice))
        .collect();
    assert_eq!(kept, diary.lines(), "the timeline is the same");
    assert!(report.timeline().iter().map(|(at, _)| at).is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_is_not_asked_again_and_changes_nothing() {
    let diary = Diary::default();
    let heard = diary.clone();
    let report = calm()
        .on_notice(move |notice| {
            heard.write(line(notice));
            panic!("cannot bear it");
        })
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["opening db"]);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn every_phase_has_its_entry_in_the_report() {
    let report = calm()
        .run(async |app| {
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    let phases: Vec<_> = report.phases().iter().map(|phase| phase.phase).collect();
    assert_eq!(phases, Phase::ALL);
}
