//! The live status for a person, as SIGUSR1 prints it: parts, tasks with age and state, budget.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::condition::Condition;
use super::ledger::Ledger;
use crate::core::Core;
use crate::duration::show;
use crate::lifecycle::Time;
use crate::roster::{Sighting, WorkKind};
use crate::seat;

/// More kinds of tasks than these are only counted.
const MOST: usize = 100;

impl Ledger {
    /// The service as it stands. Reads locks that are held for moments only, so it works while the runtime is
    /// blocked, which is when somebody asks.
    pub(crate) fn status(&self, core: &Core, now: Time) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_status(&mut text, core, now);
        text
    }

    fn write_status(&self, f: &mut String, core: &Core, now: Time) -> std::fmt::Result {
        let (stage, pid) = (self.stage(core), std::process::id());
        writeln!(f, "{}: {stage}, up {}, pid {pid}", core.name, show(now))?;
        match self.current_phase(now) {
            Some((phase, since_stop)) => writeln!(
                f,
                "  budget  {} of {} used; phase {}, {} of {}",
                show(since_stop),
                show(core.terms.grace),
                phase.phase,
                show(phase.took),
                show(phase.budget)
            )?,
            None => {
                write!(f, "  budget  {}:", show(core.terms.grace))?;
                for (phase, slice, _) in &core.plan().phases {
                    write!(f, " {phase} {}", show(*slice))?;
                }
                writeln!(f)?;
            }
        }
        self.write_parts(f, core, now)?;
        write_reloads(f, core)?;
        #[cfg(feature = "schedule")]
        write_schedules(f, core)?;
        write_tasks(f, core)
    }

    fn stage(&self, core: &Core) -> String {
        match core.cause.get() {
            Some(cause) => format!("stopping ({cause})"),
            None if core.running.is_open() => "running".to_owned(),
            None => "starting".to_owned(),
        }
    }

    fn write_parts(&self, f: &mut String, core: &Core, now: Time) -> std::fmt::Result {
        let (parts, is_told) = (core.parts(), core.stop.is_requested());
        let width = parts
            .iter()
            .map(|part| part.name.chars().count())
            .max()
            .unwrap_or(0);
        for (index, part) in parts.iter().enumerate() {
            let condition = Condition::of(part, self.progress(index), is_told).name();
            let (kind, name, age) = (part.kind, &part.name, show(now.saturating_sub(part.born)));
            write!(f, "  {kind:<11} {name:<width$}  {condition}, {age} old")?;
            if part.restarts > 0 {
                write!(f, ", restarted {}×", part.restarts)?;
            }
            match &part.failure {
                Some(failure) => writeln!(f, ": {failure}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

fn write_reloads(f: &mut String, core: &Core) -> std::fmt::Result {
    let Some(reloads) = core.reloads.summary() else {
        return Ok(());
    };
    write!(f, "  reload  {}: ", reloads.sources.join(", "))?;
    write!(
        f,
        "{}× applied, {}× refused",
        reloads.applied, reloads.refused
    )?;
    match reloads.last.and_then(|last| Some((last.at, last.refused?))) {
        Some((at, (part, failure))) => {
            let age = show(at.elapsed());
            writeln!(f, "; {age} ago refused by {part}: {failure}")
        }
        None => writeln!(f),
    }
}

#[cfg(feature = "schedule")]
fn write_schedules(f: &mut String, core: &Core) -> std::fmt::Result {
    const NEXT: usize = 10;
    let (count, entries) = core.agenda.entries(NEXT);
    if count == 0 {
        return Ok(());
    }
    writeln!(f, "  schedules {count}")?;
    let now = core.agenda.clock().now().system();
    for entry in entries {
        let next = entry.next.and_then(|next| next.duration_since(now).ok());
        let next = next.map_or_else(|| "now".to_owned(), |next| format!("in {}", show(next)));
        let (runs, failed, skipped) = (entry.runs, entry.failed, entry.skipped);
        write!(
            f,
            "    {} {next}, {runs} runs, {failed} failed, {skipped} skipped",
            entry.name
        )?;
        if let Some(ago) = entry.last.and_then(|last| now.duration_since(last).ok()) {
            write!(f, ", last {} ago", show(ago))?;
        }
        match entry.running {
            0 => writeln!(f)?,
            running => writeln!(f, ", {running} running")?,
        }
    }
    Ok(())
}

/// Tasks of one name, place and state are one line: there may be a million of them.
fn write_tasks(f: &mut String, core: &Core) -> std::fmt::Result {
    let (tasks, seated) = (core.roster.sightings(), seat::occupants());
    let mut kinds: BTreeMap<_, (usize, Duration)> = BTreeMap::new();
    for task in &tasks {
        let place = (task.place.file(), task.place.line(), task.place.column());
        let kind = (&*task.name, place, state(task, &seated));
        let (count, oldest) = kinds.entry(kind).or_default();
        *count += 1;
        *oldest = task.age.max(*oldest);
    }
    writeln!(f, "  tasks   {} alive", tasks.len())?;
    for ((name, (file, line, column), state), (count, oldest)) in kinds.iter().take(MOST) {
        let many = if *count > 1 {
            format!(" ×{count}")
        } else {
            String::new()
        };
        let age = show(*oldest);
        writeln!(
            f,
            "    {name}{many} {state}, {age} old, at {file}:{line}:{column}"
        )?;
    }
    match kinds.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more kinds"),
    }
}

/// Whoever sits on a thread is being polled at this moment; seen for longer, it blocks.
fn state(task: &Sighting, seated: &[u64]) -> &'static str {
    if task.kind == WorkKind::Blocking {
        "blocking code"
    } else if seated.contains(&task.id) {
        "on its thread"
    } else {
        "waiting"
    }
}
