//! What came of it all: the exit code with what it means, and the last words.

use adieu::Report;
use adieu::report::{Cause, Exit};

use super::args::RestartWhen;
use super::service::Shared;
use super::spawn_error::LIMIT_REACHED;
use super::{codes, log};

const OWN_FAILURE: &str = "adieu run itself failed";

const fn is_failure(cause: &Cause) -> bool {
    matches!(cause, Cause::Error(_) | Cause::Panic(_))
}

/// The exit code, and what it means.
pub(super) struct Outcome {
    pub(super) code: u8,
    pub(super) meaning: String,
    /// Whether it was started too often.
    pub(super) gave_up: bool,
}

/// Says why, if it is the end of something that never was.
pub(super) async fn outcome(shared: &Shared, report: &Report, refused: Option<u8>) -> Outcome {
    let gave_up = report.exit() != Exit::Clean
        && report.cause().is_some_and(is_failure)
        && shared.options.restart != RestartWhen::Never;
    let outcome = |code, meaning: &str| Outcome {
        code,
        meaning: meaning.to_owned(),
        gave_up: gave_up && report.problem().is_none(),
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
    match shared.end().await {
        // It was started again and again, whatever it ended with.
        Some(how) if gave_up && shared.options.is_success(how) => {
            outcome(1, "given up after too many starts")
        }
        Some(how) if how.is_success() => outcome(0, report.exit().meaning()),
        Some(how) if shared.options.is_success(how) => outcome(
            0,
            &format!("the command {how}, which counts as success (--success-code)"),
        ),
        Some(how) => outcome(how.code(), &format!("the command {how}")),
        None => outcome(codes::OWN, OWN_FAILURE),
    }
}

/// Leaves word: in the log, and in the file that was asked for.
pub(super) fn conclude(shared: &Shared, report: &Report, gave_up: bool) {
    if report.problem().is_none() {
        let (usage, adopted) = shared.processes.usage();
        let orphans = if adopted == 1 { "orphan" } else { "orphans" };
        log::info(format_args!("in all {usage}; {adopted} {orphans} reaped"));
        let was_cut = matches!(report.exit(), Exit::Cut | Exit::Signal(_));
        if was_cut || shared.was_killed() {
            log::text(report.to_string());
        }
    }
    if let Some(path) = &shared.options.report
        && let Err(error) = report.write_to(path)
    {
        let path = path.display();
        log::warn(format_args!(
            "the report could not be written to {path}: {error}"
        ));
    }
    if gave_up {
        let adieu::Restart { limit, window, .. } = shared.options.restarts;
        let (starts, are) = if limit == 1 {
            ("start", "is")
        } else {
            ("starts", "are")
        };
        log::warn(format_args!(
            "giving up: no more than {limit} new {starts} within {window:?} {are} borne (--restart-limit)"
        ));
    }
}
