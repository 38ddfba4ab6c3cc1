//! Notices as log lines. With no subscriber installed, warnings still reach standard error.

use std::io::Write;

use adieu_lifecycle::Outcome;

use crate::util::duration::show;
use crate::util::printable::one_line;

use super::notice::Notice;

macro_rules! say {
    (warn, $($field:ident = $value:expr,)* $text:literal $(, $argument:expr)*) => {{
        if tracing::dispatcher::has_been_set() {
            tracing::warn!(target: "adieu", $($field = %$value,)* $text $(, $argument)*);
        } else {
            // Not `eprintln!`, which panics if standard error is closed.
            let _ = writeln!(std::io::stderr(), concat!("adieu: ", $text) $(, $argument)*);
        }
    }};
    (info, $($field:ident = $value:expr,)* $text:literal $(, $argument:expr)*) => {
        tracing::info!(target: "adieu", $($field = %$value,)* $text $(, $argument)*)
    };
}

pub(crate) fn log(service: &str, notice: &Notice) {
    match notice {
        Notice::Opening { part } => say!(info, service = service, part = part, "opening {}", part),
        Notice::OpenRetry {
            part,
            place,
            attempts,
            delay,
            failure,
        } => say!(
            warn,
            service = service,
            part = part,
            place = place,
            failure = failure,
            "resource {} did not open: {}; attempt number {} in {}",
            part,
            failure,
            attempts + 1,
            show(*delay)
        ),
        Notice::Opened { part } => say!(info, service = service, part = part, "opened {}", part),
        Notice::Running => say!(info, service = service, "running"),
        Notice::Stopping { cause } => say!(
            info,
            service = service,
            cause = cause,
            "stopping: {}",
            cause
        ),
        Notice::Phase { phase, budget } => {
            say!(
                info,
                service = service,
                phase = phase,
                "phase {}, at most {}",
                phase,
                show(*budget)
            );
        }
        Notice::Closing { part, kind } => say!(
            info,
            service = service,
            part = part,
            kind = kind,
            "closing {} {}",
            kind,
            part
        ),
        Notice::Settled {
            part,
            kind,
            outcome,
            place,
            failure,
            blocking,
            ..
        } => match (outcome, failure) {
            (Outcome::Failed, Some(failure)) => {
                say!(
                    warn,
                    service = service,
                    part = part,
                    kind = kind,
                    outcome = outcome,
                    place = place,
                    failure = failure,
                    "{} {} failed: {} (made at {})",
                    kind,
                    part,
                    failure,
                    place
                );
            }
            (Outcome::Abandoned, _) => {
                let state = if *blocking {
                    "blocking its thread"
                } else {
                    "waiting"
                };
                say!(
                    warn,
                    service = service,
                    part = part,
                    kind = kind,
                    outcome = outcome,
                    place = place,
                    "{} {} abandoned, {} (made at {})",
                    kind,
                    part,
                    state,
                    place
                );
            }
            (Outcome::Cancelled | Outcome::Failed, _) => {
                say!(
                    warn,
                    service = service,
                    part = part,
                    kind = kind,
                    outcome = outcome,
                    place = place,
                    "{} {} {} (made at {})",
                    kind,
                    part,
                    outcome,
                    place
                );
            }
            _ => say!(
                info,
                service = service,
                part = part,
                kind = kind,
                outcome = outcome,
                place = place,
                "{} {} {}",
                kind,
                part,
                outcome
            ),
        },
        Notice::SetupFailed { failure } => say!(
            warn,
            service = service,
            failure = failure,
            "setup failed: {}",
            failure
        ),
        Notice::Restarting {
            part,
            place,
            restarts,
            delay,
            failure,
        } => {
            say!(
                warn,
                service = service,
                part = part,
                place = place,
                failure = failure,
                "task {} failed: {}; start number {} in {}",
                part,
                failure,
                restarts + 1,
                show(*delay)
            );
        }
        Notice::Restarted {
            part,
            place,
            restarts,
        } => say!(
            info,
            service = service,
            part = part,
            place = place,
            "task {} starts again as asked for; start number {}",
            part,
            restarts + 1
        ),
        Notice::ChildFailed {
            task,
            place,
            failure,
        } => {
            say!(
                warn,
                service = service,
                task = task,
                place = place,
                failure = failure,
                "task {} failed: {} (spawned at {})",
                task,
                failure,
                place
            );
        }
        Notice::ChildCancelled { task, place, count } => {
            say!(
                warn,
                service = service,
                task = task,
                place = place,
                "{} × task {} cancelled (spawned at {})",
                count,
                task,
                place
            );
        }
        Notice::ChildAbandoned {
            task,
            place,
            count,
            blocking,
        } => {
            let state = if *blocking {
                "blocking its thread"
            } else {
                "waiting"
            };
            say!(
                warn,
                service = service,
                task = task,
                place = place,
                "{} × task {} abandoned, {} (spawned at {})",
                count,
                task,
                state,
                place
            );
        }
        Notice::Blocked {
            task,
            place,
            lasted,
            ongoing,
        } => {
            let tense = if *ongoing {
                "has been blocking"
            } else {
                "blocked"
            };
            // `setup` was not spawned anywhere.
            let spawned = match place.is_empty() {
                true => String::new(),
                false => format!(" (spawned at {place})"),
            };
            say!(
                warn,
                service = service,
                task = task,
                place = place,
                "{} {} its thread for {}{}: nothing else can run there; \
                  move the work to `stop.blocking`",
                task,
                tense,
                show(*lasted),
                spawned
            );
        }
        Notice::Reloaded { parts } => {
            say!(info, service = service, "reloaded {}", parts.join(", "));
        }
        Notice::ReloadRefused { part, failure } => say!(
            warn,
            service = service,
            part = part,
            failure = failure,
            "reload refused by {}, all is as before: {}",
            part,
            failure
        ),
        Notice::RollbackFailed { part, failure } => say!(
            warn,
            service = service,
            part = part,
            failure = failure,
            "{} could not take back its part of a refused reload: {}",
            part,
            failure
        ),
        Notice::RunFailed { job, failure } => say!(
            warn,
            service = service,
            job = job,
            failure = failure,
            "a run of {} failed: {}",
            job,
            failure
        ),
        Notice::SignalFailed { signal, failure } => say!(
            warn,
            service = service,
            signal = signal,
            failure = failure,
            "the handler of {} failed: {}",
            signal,
            failure
        ),
        Notice::AdminExposed { address } => say!(
            warn,
            service = service,
            address = address,
            "the admin port on {} is reachable from other machines and has no authentication; listen on \
             127.0.0.1, or say `.exposed()` if it is meant so",
            address
        ),
        Notice::GraceTooLong {
            platform,
            grace,
            kills_after,
        } => say!(
            warn,
            service = service,
            platform = platform,
            "{}",
            crate::platform::too_long(*platform, *grace, *kills_after)
        ),
        Notice::PanicAborts => say!(
            warn,
            service = service,
            "built with panic = \"abort\": a panic in any task or request ends the process at once, without a stop \
             and without a report; leave it out of the profile in Cargo.toml"
        ),
        Notice::GraceCut {
            signal,
            grace,
            kills_after,
        } => say!(
            warn,
            service = service,
            signal = signal.name(),
            "Windows ends the process in {}: the grace period is {} instead of {}",
            show(*kills_after),
            show(crate::platform::usable(*kills_after)),
            show(*grace)
        ),
        Notice::Inherited {
            part,
            from,
            elsewhere: None,
        } => say!(info, service = service, part = part, "{}: {}", part, from),
        Notice::Inherited {
            part,
            from,
            elsewhere: Some((found, asked)),
        } => say!(
            warn,
            service = service,
            part = part,
            "{}: {}, on {} and not on {} as asked for; the one that was inherited counts",
            part,
            from,
            found,
            asked
        ),
        Notice::Unclaimed { name, descriptor } => say!(
            warn,
            service = service,
            "descriptor {} (`{}`) was handed to the service, and nothing in `setup` listens by that name: closed",
            descriptor,
            one_line(name)
        ),
        Notice::HandOffBegun { pid, command } => say!(
            info,
            service = service,
            "handing over to process {}: {}",
            pid,
            one_line(command)
        ),
        Notice::HandOffFailed { why } => say!(
            warn,
            service = service,
            "the hand-off failed, and this process goes on: {}",
            one_line(why)
        ),
        Notice::HandOffRefused { why } => {
            say!(warn, service = service, "no hand-off: {}", one_line(why));
        }
        Notice::HandedOver { pid } => {
            say!(info, service = service, "handed over to process {}", pid);
        }
        Notice::TookOver { pid } => say!(info, service = service, "took over from process {}", pid),
        Notice::Ended { exit } => {
            say!(
                info,
                service = service,
                exit = exit.code(),
                "ended: {}",
                exit.meaning()
            );
        }
    }
}
