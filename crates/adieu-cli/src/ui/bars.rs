//! How a drill goes, on a terminal only: one bar for all checks, one for the check that runs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use adieu_drill::progress::{Event, Progress};
use adieu_drill::report::{Check, Outcome};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Draws the progress of a drill on standard error, and takes it away when dropped.
pub(super) struct Bars {
    multi: MultiProgress,
    all: ProgressBar,
    now: ProgressBar,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Bars {
    /// On standard error, which is a terminal.
    pub(super) fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(12))
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let multi = MultiProgress::with_draw_target(target);
        let all = multi.add(ProgressBar::new(0).with_style(template(
            "{bar:24.green/dim} {pos:>2} of {len} checks  {elapsed:>4}  {wide_msg}",
        )));
        let now = multi.add(
            ProgressBar::new_spinner()
                .with_style(template("  {spinner} {prefix:.bold}  {wide_msg:.dim}")),
        );
        Self {
            multi,
            all,
            now,
            tally: Mutex::default(),
        }
    }

    fn planned(&self, checks: usize) {
        self.all.set_length(checks as u64);
        self.now.set_message("looking what the program answers");
        for bar in [&self.all, &self.now] {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    fn finished(&self, check: &Check) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match check.outcome {
            Outcome::Passed => tally.passed += 1,
            Outcome::Failed => tally.failed.push(check.id.clone()),
            Outcome::Skipped => tally.skipped += 1,
        }
        self.all.inc(1);
        self.all.set_message(tally.words());
    }
}

impl Tally {
    fn words(&self) -> String {
        let mut words = vec![format!("{} passed", self.passed)];
        if self.skipped > 0 {
            words.push(format!("{} skipped", self.skipped));
        }
        if !self.failed.is_empty() {
            words.push(format!("failed: {}", self.failed.join(" ")));
        }
        words.join(", ")
    }
}

impl Progress for Bars {
    fn on(&self, event: Event<'_>) {
        match event {
            Event::Planned { checks, .. } => self.planned(checks.len()),
            Event::Started { check, .. } => {
                self.now.set_prefix(check.to_owned());
                self.now.set_message("");
            }
            Event::Step { doing, .. } => self.now.set_message(doing.to_owned()),
            Event::Finished { check } => self.finished(check),
            _ => {}
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        for bar in [&self.now, &self.all] {
            bar.finish_and_clear();
        }
        // A terminal that is gone needs no clearing.
        let _ = self.multi.clear();
    }
}

fn template(words: &str) -> ProgressStyle {
    // A template of ours is right, which the test below sees to; a wrong one draws the default.
    ProgressStyle::with_template(words).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;
    use adieu_drill::report::{Group, Level, Report, Target};
    use indicatif::InMemoryTerm;

    fn check(id: &str, outcome: Outcome) -> Check {
        Check {
            id: id.to_owned(),
            group: Group::Drain,
            why: String::new(),
            outcome,
            reason: String::new(),
            evidence: Vec::new(),
            threshold: None,
            measured: None,
            hint: None,
            duration_ms: 1,
            repeats: 1,
        }
    }

    #[test]
    fn it_says_what_runs_and_what_came_and_leaves_nothing() {
        let terminal = InMemoryTerm::new(8, 100);
        let bars = Bars::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        bars.on(Event::Planned {
            checks: &["one", "two", "three"],
            report: &Report::new(Target::default(), 1, Level::Quick),
        });
        let finished = check("one", Outcome::Failed);
        bars.on(Event::Finished { check: &finished });
        bars.on(Event::Started {
            check: "two",
            steps: Some(5),
        });
        bars.on(Event::Step {
            check: "two",
            done: 2,
            doing: "run 2 of 5",
        });
        bars.all.tick();
        bars.now.tick();
        let shown = terminal.contents();
        assert!(shown.contains("1 of 3 checks"), "{shown}");
        assert!(shown.contains("0 passed, failed: one"), "{shown}");
        assert!(shown.contains("two  run 2 of 5"), "{shown}");
        drop(bars);
        assert_eq!(terminal.contents(), "");
    }
}
