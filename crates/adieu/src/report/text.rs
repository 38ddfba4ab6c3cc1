//! The report for a person: a line that says it all, a small timeline, the parts, what was lost.

use std::fmt;
use std::time::Duration;

use adieu_lifecycle::Outcome;

use super::report::{ComponentReport, PhaseReport, Report};
use crate::util::duration::show;
use crate::util::printable::one_line;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exit, meaning) = (self.exit_code(), self.meaning());
        match &self.cause {
            None => writeln!(f, "{} did not start: exit {exit}, {meaning}", self.service)?,
            Some(cause) => writeln!(
                f,
                "{} stopped ({cause}): exit {exit}, {meaning}; {} of {}",
                self.service,
                show(self.took),
                show(self.grace),
            )?,
        }
        if let Some(problem) = &self.problem {
            writeln!(f, "  problem: {problem}")?;
        }
        self.phases
            .iter()
            .try_for_each(|phase| self.phase_line(f, phase))?;
        let width = self
            .parts
            .iter()
            .map(|part| part.name.chars().count())
            .max()
            .unwrap_or(0);
        self.parts
            .iter()
            .try_for_each(|part| part_lines(f, part, width))?;
        for loss in &self.lost {
            let many = if loss.count > 1 {
                format!(" ×{}", loss.count)
            } else {
                String::new()
            };
            let state = state(loss.outcome, loss.blocking);
            writeln!(
                f,
                "  lost: {}{many} {}{state}, {} old{}",
                loss.name,
                loss.outcome,
                show(loss.age),
                at(", spawned", &loss.place)
            )?;
            if let Some(failure) = &loss.failure {
                writeln!(f, "        {failure}")?;
            }
        }
        if self.lost_unnamed > 0 {
            writeln!(f, "  lost: {} more", self.lost_unnamed)?;
        }
        for blocked in &self.blocked {
            let longest = show(Duration::from_millis(blocked.longest_ms));
            writeln!(
                f,
                "  blocked its thread: {} ×{}, longest {longest}{}",
                blocked.task,
                blocked.times,
                at(", spawned", &blocked.place)
            )?;
        }
        Ok(())
    }
}

impl Report {
    /// The bar shows where in the stop the phase lay: the whole width is the time the stop took.
    fn phase_line(&self, f: &mut fmt::Formatter<'_>, phase: &PhaseReport) -> fmt::Result {
        const WIDTH: f64 = 24.0;
        let share = |time: Duration| match self.took.as_secs_f64() {
            0.0 => 0.0,
            whole => (time.as_secs_f64() / whole * WIDTH).clamp(0.0, WIDTH),
        };
        let (from, to) = (share(phase.began), share(phase.began + phase.took));
        let bar: String = (0..24_u8)
            .map(|cell| {
                let middle = f64::from(cell) + 0.5;
                if middle >= from && middle < to {
                    '━'
                } else {
                    '·'
                }
            })
            .collect();
        let budget = show(phase.budget);
        writeln!(
            f,
            "  {:<9} {bar} {:>8} of {budget}",
            phase.phase.name(),
            show(phase.took)
        )
    }
}

fn part_lines(f: &mut fmt::Formatter<'_>, part: &ComponentReport, width: usize) -> fmt::Result {
    let state = state(part.outcome, part.blocking);
    let (kind, name, outcome) = (part.kind, &part.name, part.outcome);
    write!(f, "  {kind:<11} {name:<width$}  {outcome}{state}")?;
    if !matches!(outcome, Outcome::NotReached) && !part.ending.is_zero() {
        write!(f, " in {}", show(part.ending))?;
    }
    if part.restarts > 0 {
        write!(f, ", restarted {}×", part.restarts)?;
    }
    if matches!(
        outcome,
        Outcome::Abandoned | Outcome::Cancelled | Outcome::Failed
    ) {
        write!(f, ", {} old{}", show(part.age), at(", made", &part.place))?;
    }
    writeln!(f)?;
    for note in &part.notes {
        writeln!(f, "  {:<11} {:<width$}  · {}", "", "", one_line(note))?;
    }
    match &part.failure {
        Some(failure) => writeln!(f, "  {:<11} {:<width$}  └ {failure}", "", ""),
        None => Ok(()),
    }
}

/// A place in the source, if it is said.
fn at(what: &str, place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!("{what} at {place}")
    }
}

fn state(outcome: Outcome, blocking: bool) -> &'static str {
    match (outcome, blocking) {
        (Outcome::Abandoned, true) => " (blocking its thread)",
        (Outcome::Abandoned, false) => " (waiting)",
        _ => "",
    }
}
