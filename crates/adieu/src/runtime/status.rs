//! The live status for a person, as SIGUSR1 prints it: parts, tasks with age and state, budget.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use adieu_lifecycle::Time;

use crate::report::ReportBuilder;
use crate::runtime::shared::ServiceShared;
use crate::tracking::poll_slot;
use crate::tracking::task_registry::{TaskInfo, WorkKind};
use crate::util::duration::show;
use crate::util::printable::name_of;

/// More kinds of tasks than these are only counted.
const MOST: usize = 100;

/// The service as it stands. Reads locks that are held for moments only, so it works while the runtime is
/// blocked, which is when an operator asks.
pub(crate) fn status(builder: &ReportBuilder, core: &ServiceShared, now: Time) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_status(&mut text, builder, core, now);
    text
}

fn write_status(
    f: &mut String,
    builder: &ReportBuilder,
    core: &ServiceShared,
    now: Time,
) -> std::fmt::Result {
    let (stage, pid) = (stage(core), std::process::id());
    writeln!(f, "{}: {stage}, up {}, pid {pid}", core.name, show(now))?;
    match builder.current_phase(now) {
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
    write_components(f, core, now)?;
    for extension in core.extensions.iter() {
        extension.write_status(f)?;
    }
    write_tasks(f, core)
}

fn stage(core: &ServiceShared) -> String {
    match core.cause.get() {
        Some(cause) => format!("stopping ({cause})"),
        None if core.running.is_open() => "running".to_owned(),
        None => "starting".to_owned(),
    }
}

fn write_components(f: &mut String, core: &ServiceShared, now: Time) -> std::fmt::Result {
    let parts = core.parts();
    let width = parts
        .iter()
        .map(|part| part.name.chars().count())
        .max()
        .unwrap_or(0);
    for part in &*parts {
        let status = part.status().name();
        let (kind, name, age) = (part.kind, &part.name, show(now.saturating_sub(part.born)));
        write!(f, "  {kind:<11} {name:<width$}  {status}, {age} old")?;
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

/// Tasks of one name, place and state are one line: there may be a million of them.
fn write_tasks(f: &mut String, core: &ServiceShared) -> std::fmt::Result {
    let (tasks, polled) = (core.tasks.infos(), poll_slot::polled_tasks());
    let mut kinds: BTreeMap<_, (usize, Duration)> = BTreeMap::new();
    for task in &tasks {
        let place = (task.place.file(), task.place.line(), task.place.column());
        let kind = (&*task.name, place, state(task, &polled));
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
            "    {}{many} {state}, {age} old, at {file}:{line}:{column}",
            name_of(name.chars())
        )?;
    }
    match kinds.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more kinds"),
    }
}

/// A task that is on its thread is being polled at this moment; seen for longer, it blocks.
fn state(task: &TaskInfo, polled: &[u64]) -> &'static str {
    if task.kind == WorkKind::Blocking {
        "blocking code"
    } else if polled.contains(&task.id) {
        "on its thread"
    } else {
        "waiting"
    }
}
