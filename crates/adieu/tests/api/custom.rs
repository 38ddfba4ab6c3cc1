//! Components of the program's own kind.

use std::time::Duration;

use adieu::component::{Component, ComponentStatus, Stopped};
use adieu::report::{Cause, ComponentKind, Exit, Outcome};
use adieu::{BoxError, Stop};
use tokio::time::Instant;

use crate::clues::{Diary, calm, millis, nothing, secs, stopped_after_a_second};

/// Does what the test sets, and writes it down.
struct Actor {
    diary: Diary,
    starts: Result<Duration, &'static str>,
    fails_after: Option<Duration>,
    stops: fn() -> Result<Stopped, BoxError>,
    stop_takes: Duration,
    limit: Option<Duration>,
}

fn actor(diary: &Diary) -> Actor {
    Actor {
        diary: diary.clone(),
        starts: Ok(Duration::ZERO),
        fails_after: None,
        stops: || Ok(Stopped::Finished),
        stop_takes: Duration::ZERO,
        limit: None,
    }
}

impl Component for Actor {
    fn kind(&self) -> &'static str {
        "actor"
    }

    async fn start(&mut self, _stop: &Stop) -> Result<(), BoxError> {
        tokio::time::sleep(self.starts?).await;
        self.diary.write("started");
        Ok(())
    }

    async fn failed(&mut self) -> BoxError {
        match self.fails_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
        "the line is dead".into()
    }

    async fn stop(self, deadline: Option<Instant>) -> Result<Stopped, BoxError> {
        let left = deadline.map(|at| (at - Instant::now()).as_millis().div_ceil(1_000));
        self.diary.write(format!("stops, {left:?}"));
        tokio::time::sleep(self.stop_takes).await;
        self.diary.write("stopped");
        (self.stops)()
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

#[tokio::test(start_paused = true)]
async fn it_starts_in_its_place_and_stops_before_the_resources() {
    let diary = Diary::default();
    let (play, close) = (actor(&diary), diary.clone());
    let report = stopped_after_a_second()
        .run(async move |app| {
            let said = close.clone();
            app.resource("db", nothing())
                .stop(move |()| async move { said.write("db closed") })
                .await?;
            let handle = app.start_component("play", play).await?;
            close.write("next");
            assert_eq!(handle.kind(), ComponentKind::Custom("actor"));
            assert_eq!(handle.status(), ComponentStatus::Ready);
            Ok(())
        })
        .await;
    let lines = ["started", "next", "stops, Some(7)", "stopped", "db closed"];
    assert_eq!(diary.lines(), lines, "{report}");
    let part = report.part("play").unwrap();
    assert_eq!(
        (part.outcome, part.kind.name()),
        (Outcome::Finished, "actor")
    );
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_ends_the_start_of_the_service() {
    let diary = Diary::default();
    let play = Actor {
        starts: Err("no such host"),
        ..actor(&diary)
    };
    let report = calm()
        .run(async move |app| {
            app.resource("db", nothing()).await?;
            app.start_component("play", play).await?;
            unreachable!("it does not start");
        })
        .await;
    let problem = report.problem().expect("it says why");
    assert_eq!(problem.causes, ["`play` did not start", "no such host"]);
    assert_eq!(report.cause(), Some(&Cause::Error("play".into())));
    assert_eq!(report.part("play").unwrap().outcome, Outcome::Failed);
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    assert_eq!(diary.lines(), [""; 0], "what did not start is not stopped");
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_up_a_start_and_nothing_was_cut() {
    let diary = Diary::default();
    let play = Actor {
        starts: Ok(secs(3_600)),
        ..actor(&diary)
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            let components = app.components();
            app.task("looks", |_stop| async move {
                let play = components.get("play").expect("it is registered");
                assert_eq!(play.status(), ComponentStatus::Starting);
            });
            app.start_component("play", play).await?;
            unreachable!("it does not start");
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert_eq!(diary.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_while_it_runs_stops_the_service() {
    let diary = Diary::default();
    let play = Actor {
        fails_after: Some(secs(5)),
        ..actor(&diary)
    };
    let report = calm()
        .run(async move |app| {
            app.start_component("play", play).await?;
            Ok(())
        })
        .await;
    assert_eq!(report.cause(), Some(&Cause::Error("play".into())));
    let failure = report.part("play").unwrap().failure.as_ref();
    assert_eq!(
        failure.map(ToString::to_string).as_deref(),
        Some("the line is dead")
    );
    assert_eq!(diary.lines(), ["started"], "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_it_had_to_give_up_is_in_the_report() {
    let diary = Diary::default();
    let play = Actor {
        stops: || Ok(Stopped::Cut("2 offsets not committed".to_owned())),
        ..actor(&diary)
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.start_component("play", play).await?;
            Ok(())
        })
        .await;
    let part = report.part("play").unwrap();
    assert_eq!(part.outcome, Outcome::Cancelled, "{report}");
    assert_eq!(part.notes, ["2 offsets not committed"]);
    assert_eq!(report.exit(), Exit::Cut, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_hangs_is_cut_at_its_limit() {
    let diary = Diary::default();
    let play = Actor {
        stop_takes: secs(3_600),
        limit: Some(secs(2)),
        ..actor(&diary)
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.start_component("play", play).await?;
            Ok(())
        })
        .await;
    assert_eq!(report.part("play").unwrap().outcome, Outcome::Cancelled);
    assert_eq!(report.exit(), Exit::Cut, "{report}");
    assert!(
        (secs(2)..secs(2) + millis(100)).contains(&report.took()),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn its_handle_stops_it_alone() {
    let diary = Diary::default();
    let play = actor(&diary);
    let report = stopped_after_a_second()
        .run(async move |app| {
            let handle = app.start_component("play", play).await?;
            app.task("script", |stop| async move {
                handle.stop();
                assert_eq!(handle.done().await, Outcome::Finished);
                stop.requested().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["started", "stops, None", "stopped"]);
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}
