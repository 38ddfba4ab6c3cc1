//! The end of `adieu run`: the exit code, what it means, and the lines of the log about it.

use std::sync::Arc;

use adieu::Report;
use adieu::report::{Cause, Exit};

use super::args::RestartWhen;
use super::spawn_error::LIMIT_REACHED;
use super::worker::{Run, Worker};
use super::{codes, log};

const OWN_FAILURE: &str = "adieu run itself failed";

const fn is_failure(cause: &Cause) -> bool {
    matches!(cause, Cause::Error(_) | Cause::Panic(_))
}

/// Whether the stop began because a command had ended.
const fn is_end(cause: &Cause) -> bool {
    is_failure(cause) || matches!(cause, Cause::Requested(_) | Cause::AllTasksEnded)
}

/// The exit code, and what it means.
pub(super) struct Outcome {
    pub(super) code: u8,
    pub(super) meaning: String,
    /// The worker that was started too often.
    pub(super) gave_up: Option<Arc<Worker>>,
}

/// Says why, if it is the end of something that never was.
pub(super) async fn outcome(run: &Run, report: &Report, refused: Option<u8>) -> Outcome {
    let was_end = report.cause().is_some_and(is_end);
    let decisive = run.decisive(was_end).await;
    let worker = decisive.as_ref().map(|(worker, _)| Arc::clone(worker));
    let is_restarted = |worker: &Arc<Worker>| worker.options().restart != RestartWhen::Never;
    let gave_up = worker.filter(|worker| {
        report.exit() != Exit::Clean
            && report.cause().is_some_and(is_failure)
            && is_restarted(worker)
    });
    let outcome = |code, meaning: &str| Outcome {
        code,
        meaning: meaning.to_owned(),
        gave_up: gave_up.clone().filter(|_| report.problem().is_none()),
    };
    if let Some(problem) = report.problem().map(ToString::to_string) {
        // A thread is a process to the kernel.
        let no_more = format!("(os error {})", libc::EAGAIN);
        if refused.is_none() && problem.contains(&no_more) {
            log::warn(format_args!("{problem}: {LIMIT_REACHED}"));
        } else {
            log::warn(problem);
        }
    }
    match refused {
        Some(code @ codes::NOT_FOUND) => return outcome(code, "there is no such command"),
        Some(code @ codes::NOT_EXECUTABLE) => {
            return outcome(code, "the command cannot be executed");
        }
        Some(code) => return outcome(code, OWN_FAILURE),
        None if report.problem().is_some() => return outcome(codes::OWN, OWN_FAILURE),
        None => {}
    }
    let ended = decisive.and_then(|(worker, how)| Some((worker, how?)));
    let Some((worker, how)) = ended else {
        return outcome(codes::OWN, OWN_FAILURE);
    };
    let name = match run.has_one() {
        true => "the command",
        false => &worker.name,
    };
    if !worker.options().is_success(how) {
        outcome(how.code(), &format!("{name} {how}"))
    } else if gave_up.is_some() {
        // It was started again and again, whatever it ended with.
        outcome(1, "given up after too many starts")
    } else if how.is_success() {
        outcome(0, report.exit().meaning())
    } else {
        let why = format!("{name} {how}, which counts as success (--success-code)");
        outcome(0, &why)
    }
}

/// Leaves word: in the log, and in the file that was asked for.
pub(super) fn conclude(run: &Run, report: &Report, gave_up: Option<Arc<Worker>>) {
    if report.problem().is_none() {
        let (usage, adopted) = run.processes.usage();
        let orphans = if adopted == 1 { "orphan" } else { "orphans" };
        log::info(format_args!("{usage}; {adopted} {orphans} reaped"));
        let was_cut = matches!(report.exit(), Exit::Cut | Exit::Signal(_));
        if was_cut || run.was_killed() {
            log::text(report.to_string());
        }
    }
    if let Some(path) = &run.options.report
        && let Err(error) = report.write_to(path)
    {
        let path = path.display();
        log::warn(format_args!(
            "the report could not be written to {path}: {error}"
        ));
    }
    if let Some(worker) = gave_up {
        let adieu::Restart { limit, window, .. } = worker.options().restarts;
        log::warn(format_args!(
            "giving up: the restart limit is reached, {limit} within {window:?} (--restart-limit, --restart-window)"
        ));
    }
}
