//! `adieu drill --rollout`: a deployment that any command changes.

use std::process::ExitCode;

use adieu_drill::report::Report;
use adieu_drill::{Connections, Rollout};
use tokio::runtime::Runtime;

use super::args::{ConnectionsArg, DrillArgs};
use super::execute::{NoReport, run_rollout, runtime};
use super::run::ending;
use super::{github, output as reports};
use crate::output::{self, ExitKind};

/// Runs the command of a roll-out under traffic, and tells what it cost.
pub(super) fn run(args: &DrillArgs, command: &str, url: &str) -> ExitCode {
    let rollout = match rollout(args, command, url) {
        Ok(rollout) => rollout,
        Err(sentence) => {
            output::error(sentence);
            return ExitKind::Usage.into();
        }
    };
    let name = rollout.target_name();
    hand_over(args, &name, |runtime| run_rollout(runtime, rollout))
}

/// Runs it, and writes its report wherever it was asked for.
pub(super) fn hand_over(
    args: &DrillArgs,
    name: &str,
    run: impl FnOnce(&Runtime) -> Result<Report, NoReport>,
) -> ExitCode {
    let report = match runtime().and_then(|runtime| run(&runtime)) {
        Ok(report) if args.slim => report.slim(),
        Ok(report) => report,
        Err(reason) => {
            if args.json
                && let Err(sentence) = reports::json_so_far(&[], name, &reason.to_string())
            {
                output::error(sentence);
            }
            return reason.say();
        }
    };
    github::annotate(&report);
    let told = match args.json {
        true => reports::json(std::slice::from_ref(&report)),
        false => reports::text(&report),
    };
    // A page can be written though standard output cannot.
    let written = reports::files(args, std::slice::from_ref(&report));
    if let Err(sentence) = told.and(written) {
        output::error(sentence);
        return ExitKind::Usage.into();
    }
    reports::tell_files(args);
    ending(report.verdict).into()
}

fn rollout(args: &DrillArgs, command: &str, url: &str) -> Result<Rollout, String> {
    let options = &args.options;
    let mut rollout = Rollout::command(command, url);
    macro_rules! with {
        ($($field:ident),*) => { $(if let Some(value) = &options.$field { rollout = rollout.$field(value.clone()); })* };
    }
    with!(name, cwd, method, body, clients, repeat, seed);
    for (name, value) in &options.header {
        rollout = rollout.header(name, value);
    }
    for (id, value) in &options.threshold {
        rollout = rollout.threshold(id, value);
    }
    if let Some(rate) = args.rate {
        rollout = rollout.rate(rate);
    }
    if let Some(connections) = args.connections {
        rollout = rollout.connections(match connections {
            ConnectionsArg::Kept => Connections::Kept,
            ConnectionsArg::Fresh => Connections::Fresh,
            ConnectionsArg::Both => Connections::Both,
        });
    }
    if let Some(steady) = args.steady {
        rollout = rollout.steady(steady);
    }
    if let Some(within) = args.within {
        rollout = rollout.within(within);
    }
    rollout.validate().map_err(|cannot| cannot.to_string())?;
    reports::check(args)?;
    Ok(rollout)
}
