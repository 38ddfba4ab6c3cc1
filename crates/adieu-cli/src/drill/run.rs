//! From the arguments to the exit code.

use std::process::ExitCode;

use adieu_drill::report::Verdict;

use super::args::DrillArgs;
use super::execute::{NoReport, run_drill, runtime};
use super::options::DrillOptions;
use super::{behind, catalogue, compare, file, github, jobs, output as reports, rollout};
use crate::output::{self, ExitKind};

/// Runs the command.
pub(crate) fn run(args: &DrillArgs) -> ExitCode {
    #[cfg(unix)]
    if let Some(mark) = &args.guard {
        adieu_drill::guard::watch(mark);
        return ExitKind::Clean.into();
    }
    if args.list {
        return catalogue::list().into();
    }
    if args.schema {
        return catalogue::schema().into();
    }
    if let Some(id) = &args.explain {
        return catalogue::explain(id).into();
    }
    if let Some([before, after]) = args.compare.as_deref() {
        return compare::compare(before, after, args.json).into();
    }
    if let (Some(command), Some(url)) = (&args.rollout, &args.url) {
        return rollout::run(args, command, url);
    }
    if let (Some(count), Some(enqueue), Some(done)) = (args.jobs, &args.enqueue, &args.done) {
        return jobs::run(args, count, enqueue, done);
    }
    if let Some(profile) = &args.behind {
        return behind::run(args, profile);
    }
    let targets = match targets(args) {
        Ok(targets) => targets,
        Err(sentence) => {
            output::error(sentence);
            return ExitKind::Usage.into();
        }
    };
    drill(args, &targets)
}

/// The drills that were asked for, in order.
fn targets(args: &DrillArgs) -> Result<Vec<DrillOptions>, String> {
    let said = args.said();
    // Each with the place that is to blame if it makes no sense.
    let targets = match &args.file {
        None => vec![(None, said)],
        Some(path) => {
            let mut targets = file::read(path)?;
            for name in &args.target {
                if !targets.iter().any(|(_, it)| it.name.as_ref() == Some(name)) {
                    return Err(format!("{}: no target is named `{name}`", path.display()));
                }
            }
            let wanted = |name: &Option<String>| {
                name.as_ref().is_some_and(|name| args.target.contains(name))
            };
            targets.retain(|(_, options)| args.target.is_empty() || wanted(&options.name));
            targets
                .into_iter()
                .map(|(place, options)| (Some(place), options.merged_with(&said)))
                .collect()
        }
    };
    // What makes no sense is said before the first one runs.
    for (place, options) in &targets {
        let place = place.as_ref().map(|it| format!("{it}: "));
        let named = options.name.as_ref().filter(|_| place.is_some());
        let named = named.map(|name| format!("target {name}: "));
        let (place, named) = (place.unwrap_or_default(), named.unwrap_or_default());
        options
            .drill()
            .validate()
            .map_err(|cannot| format!("{place}{named}{cannot}"))?;
    }
    reports::check(args)?;
    Ok(targets.into_iter().map(|(_, options)| options).collect())
}

fn drill(args: &DrillArgs, targets: &[DrillOptions]) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(reason) => return reason.say(),
    };
    let mut held = Vec::new();
    for options in targets {
        let name = options.drill().target_name();
        let (report, cut_short) = match run_drill(&runtime, options.drill()) {
            Ok(report) => (Some(report), None),
            // What was judged before a signal is not lost.
            Err(NoReport::Interrupted(signal, so_far)) => (
                so_far.map(|it| *it),
                Some(NoReport::Interrupted(signal, None)),
            ),
            Err(reason) => (None, Some(reason)),
        };
        let report = report.map(|report| if args.slim { report.slim() } else { report });
        let told = match &report {
            Some(report) if !args.json => reports::text(report),
            _ => Ok(()),
        };
        if let Some(report) = &report {
            github::annotate(report);
        }
        held.extend(report);
        // A page can be written though standard output cannot.
        let written = match held.is_empty() {
            true => Ok(()),
            false => reports::files(args, &held),
        };
        if let Some(reason) = cut_short {
            // The reader of the JSON has a whole object also now, and the results so far are not lost.
            let so_far = match args.json {
                true => reports::json_so_far(&held, &name, &reason.to_string()),
                false => Ok(()),
            };
            if let Err(sentence) = told.and(written).and(so_far) {
                // The code is that of the reason.
                output::error(sentence);
            }
            return match targets {
                [_] => reason.say(),
                _ => reason.of_target(&name).say(),
            };
        }
        if let Err(sentence) = told.and(written) {
            output::error(sentence);
            return ExitKind::Usage.into();
        }
    }
    reports::tell_files(args);
    if args.json
        && let Err(sentence) = reports::json(&held)
    {
        output::error(sentence);
        return ExitKind::Usage.into();
    }
    ending(Verdict::of_all(held.iter().map(|report| report.verdict))).into()
}

/// With what code a drill of this verdict ends.
pub(crate) const fn ending(verdict: Verdict) -> ExitKind {
    match verdict {
        Verdict::Passed => ExitKind::Clean,
        Verdict::Failed => ExitKind::Findings,
        Verdict::NotJudged => ExitKind::NotJudged,
    }
}
