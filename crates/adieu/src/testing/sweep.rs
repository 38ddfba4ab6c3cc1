//! The sweep: the same service again and again, stopped at every await point in turn.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Exit, Outcome};

use super::await_points::AwaitPoints;
use super::rehearsal::{on_paused_clock, scope_for_tests};
use crate::app::{App, ShutdownHandle};
use crate::report::{ComponentKind, Notice, Report};

/// A sweep over `setup`: [`Sweep::run`] runs it once undisturbed to count the await points, in `setup` and in
/// every task, then once for each of them with a stop exactly there. After each run the promises must hold:
///
/// - every part has an outcome, and none was left behind;
/// - everything that opened was closed, last opened first, after all work had ended;
/// - the stop kept to the grace period;
/// - the end was clean.
///
/// ```
/// use adieu::testing::sweep;
/// use std::time::Duration;
///
/// async fn setup(app: &mut adieu::App) -> adieu::Result {
///     app.resource("db", async {
///         tokio::time::sleep(Duration::from_millis(20)).await; // a stop can come here
///         Ok::<_, std::io::Error>(())
///     })
///     .await?;
///     app.task("worker", |stop| async move { while stop.sleep(Duration::from_secs(1)).await {} });
///     Ok(())
/// }
///
/// let swept = sweep(setup).lasting(Duration::from_secs(5)).run();
/// assert!(swept.points() > 5);
/// ```
#[must_use = "a sweep does nothing until `run`"]
pub struct Sweep<F> {
    setup: F,
    lasting: Duration,
    most: u64,
    check: Option<ReportCheck>,
    allow_failures: bool,
}

type ReportCheck = Box<dyn FnMut(&Report)>;

/// Begins a sweep over `setup`, which is called once for each run.
pub fn sweep<F>(setup: F) -> Sweep<F>
where
    F: AsyncFn(&mut App) -> crate::Result,
{
    Sweep {
        setup,
        lasting: Duration::from_secs(10),
        most: 1_000,
        check: None,
        allow_failures: false,
    }
}

/// What a sweep went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    points: u64,
    all: u64,
}

impl Swept {
    /// At how many await points the service was stopped.
    #[must_use]
    pub const fn points(self) -> u64 {
        self.points
    }

    /// Whether every await point was tried, or only the first ones up to the limit.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        self.points == self.all
    }
}

impl<F> Sweep<F>
where
    F: AsyncFn(&mut App) -> crate::Result,
{
    /// How long the undisturbed run lasts, on the paused clock, before it is stopped; ten seconds if left out.
    pub const fn lasting(mut self, time: Duration) -> Self {
        self.lasting = time;
        self
    }

    /// The most await points to try; a thousand if left out.
    pub const fn at_most(mut self, points: u64) -> Self {
        self.most = points;
        self
    }

    /// Looks at the report of every run; panics in it fail the sweep.
    pub fn check(mut self, check: impl FnMut(&Report) + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// The service fails by itself, on purpose: exit code 1 is as good as 0.
    pub const fn failures_are_fine(mut self) -> Self {
        self.allow_failures = true;
        self
    }

    /// Runs the sweep.
    ///
    /// # Panics
    /// At the first run after which a promise does not hold, with that run's report.
    pub fn run(mut self) -> Swept {
        let (report, all, _) = self.once(None);
        self.judge(&report, "the undisturbed run");
        let points = all.min(self.most);
        for point in 1..=points {
            let (report, _, who) = self.once(Some(point));
            let who = who.unwrap_or_else(|| "no task: the service had ended before".to_owned());
            self.judge(
                &report,
                &format!("the run stopped at await point {point} of {all}, in {who}"),
            );
        }
        Swept { points, all }
    }

    fn once(&self, stop_at: Option<u64>) -> (Report, u64, Option<String>) {
        on_paused_clock(async {
            let stage = scope_for_tests()
                .begin()
                .expect("the settings of a sweep are right");
            let core = Arc::clone(&stage.core);
            let await_points = AwaitPoints::observe(&core);
            if let Some(point) = stop_at {
                await_points.stop_at(point);
            }
            let handle = ShutdownHandle::new(Arc::clone(&core));
            let lasting = self.lasting;
            let timer = tokio::spawn(async move {
                tokio::time::sleep(lasting).await;
                handle.stop("the run has lasted long enough");
            });
            let report = stage.run(&self.setup).await;
            timer.abort();
            (report, await_points.passed(), await_points.stopped_in())
        })
    }

    fn judge(&mut self, report: &Report, run: &str) {
        let broken = broken_promises(report, self.allow_failures);
        assert!(
            broken.is_empty(),
            "{run} broke a promise:\n{}\n{report}",
            Lines(&broken)
        );
        if let Some(check) = &mut self.check {
            check(report);
        }
    }
}

struct Lines<'a>(&'a [String]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "  - {line}"))
    }
}

fn broken_promises(report: &Report, allow_failures: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let fine = match report.exit() {
        Exit::Clean => true,
        Exit::Failed => allow_failures,
        _ => false,
    };
    if !fine {
        broken.push(format!(
            "the end was not clean: exit {}",
            report.exit_code()
        ));
    }
    if report.took() > report.grace {
        broken.push("the stop took longer than the grace period".to_owned());
    }
    for part in report.parts() {
        if matches!(part.outcome, Outcome::Abandoned | Outcome::NotReached) {
            broken.push(format!(
                "{} `{}` was {}",
                part.kind, part.name, part.outcome
            ));
        }
    }
    broken.extend(disorder(report));
    broken
}

/// Resources close once each, in the reverse order of their opening, and after all work has its outcome.
fn disorder(report: &Report) -> Vec<String> {
    let mut broken = Vec::new();
    let mut open = Vec::new();
    let mut closing = false;
    let mut settled: HashMap<&str, u32> = HashMap::new();
    for (_, notice) in report.timeline() {
        match notice {
            Notice::Opened { part } => open.push(&**part),
            Notice::Closing {
                part,
                kind: ComponentKind::Resource,
            } => {
                closing = true;
                if open.pop() != Some(&**part) {
                    broken.push(format!("`{part}` was closed out of order"));
                }
            }
            Notice::Settled { part, kind, .. } => {
                *settled.entry(part).or_default() += 1;
                if closing
                    && matches!(
                        kind,
                        ComponentKind::Task | ComponentKind::Worker | ComponentKind::Blocking
                    )
                {
                    broken.push(format!("a resource was closed before `{part}` had ended"));
                }
            }
            _ => {}
        }
    }
    broken.extend(open.iter().map(|part| format!("`{part}` stayed open")));
    let twice = settled.iter().filter(|(_, count)| **count > 1);
    broken.extend(twice.map(|(part, _)| format!("`{part}` has two outcomes")));
    broken
}

/// What no service can do to the library, only a mistake in it: reports of a run that are changed by hand.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rehearse;

    /// A run with two resources and a task.
    fn report() -> Report {
        let report = rehearse(
            async |app| {
                app.resource("one", async { Ok::<_, std::io::Error>(()) })
                    .await?;
                app.resource("two", async { Ok::<_, std::io::Error>(()) })
                    .await?;
                app.task("worker", |stop| async move { stop.requested().await });
                Ok(())
            },
            async |world| world.shutdown_handle().stop("enough"),
        );
        assert_eq!(broken_promises(&report, false), Vec::<String>::new());
        report
    }

    /// Where the first notice is that this is true of.
    fn place(report: &Report, is_it: impl Fn(&Notice) -> bool) -> usize {
        let found = report.timeline.iter().position(|(_, it)| is_it(it));
        found.expect("it is in the timeline")
    }

    fn closing(report: &Report, name: &str) -> usize {
        place(
            report,
            |it| matches!(it, Notice::Closing { part, .. } if **part == *name),
        )
    }

    fn settled(report: &Report, name: &str) -> usize {
        place(
            report,
            |it| matches!(it, Notice::Settled { part, .. } if **part == *name),
        )
    }

    #[test]
    fn resources_that_close_in_the_order_of_their_opening() {
        let mut report = report();
        let (one, two) = (closing(&report, "one"), closing(&report, "two"));
        report.timeline.swap(one, two);
        assert_eq!(
            disorder(&report),
            [
                "`one` was closed out of order",
                "`two` was closed out of order"
            ]
        );
    }

    #[test]
    fn a_resource_that_stays_open() {
        let mut report = report();
        let one = closing(&report, "one");
        report.timeline.remove(one);
        assert_eq!(broken_promises(&report, false), ["`one` stayed open"]);
    }

    #[test]
    fn a_resource_that_closes_before_the_work_has_ended() {
        let mut report = report();
        let worker = settled(&report, "worker");
        let entry = report.timeline.remove(worker);
        let two = closing(&report, "two");
        report.timeline.insert(two + 1, entry);
        assert_eq!(
            broken_promises(&report, false),
            ["a resource was closed before `worker` had ended"]
        );
    }

    #[test]
    fn a_part_with_two_outcomes() {
        let mut report = report();
        let two = settled(&report, "two");
        report.timeline.push(report.timeline[two].clone());
        assert_eq!(broken_promises(&report, false), ["`two` has two outcomes"]);
    }

    #[test]
    fn a_stop_that_takes_longer_than_the_grace() {
        let mut report = report();
        report.took = report.grace;
        assert_eq!(broken_promises(&report, false), Vec::<String>::new());
        report.took += Duration::from_nanos(1);
        assert_eq!(
            broken_promises(&report, false),
            ["the stop took longer than the grace period"]
        );
    }

    #[test]
    fn a_part_that_was_not_reached() {
        let mut report = report();
        report.parts[0].outcome = Outcome::NotReached;
        assert_eq!(
            broken_promises(&report, false),
            ["resource `one` was not reached"]
        );
    }
}
