//! From the arguments to the exit code.

use std::process::ExitCode;

use adieu_drill::report::Verdict;

use super::args::DrillArgs;
use super::hold::{hold, runtime};
use super::wish::Wish;
use super::{catalogue, compare, file, output as reports};
use crate::output::{self, Ending};
use crate::show;

/// Runs the command.
pub(crate) fn run(args: &DrillArgs) -> ExitCode {
    if args.list {
        return catalogue::list().into();
    }
    if let Some(id) = &args.explain {
        return catalogue::explain(id).into();
    }
    if let Some([before, after]) = args.compare.as_deref() {
        return compare::compare(before, after, args.json).into();
    }
    let wishes = match wishes(args) {
        Ok(wishes) => wishes,
        Err(sentence) => {
            output::error(sentence);
            return Ending::Usage.into();
        }
    };
    drill(args, &wishes)
}

/// The drills that were asked for, in order.
fn wishes(args: &DrillArgs) -> Result<Vec<Wish>, String> {
    let said = Wish::of(args)?;
    // Each with the place that is to blame if it makes no sense.
    let wishes = match &args.file {
        None => vec![(None, said)],
        Some(path) => {
            let mut wishes = file::read(path)?;
            for name in &args.target {
                if !wishes.iter().any(|(_, it)| it.name.as_ref() == Some(name)) {
                    return Err(format!("{}: no target is named `{name}`", path.display()));
                }
            }
            let wanted = |name: &Option<String>| {
                name.as_ref().is_some_and(|name| args.target.contains(name))
            };
            wishes.retain(|(_, wish)| args.target.is_empty() || wanted(&wish.name));
            wishes
                .into_iter()
                .map(|(place, wish)| (Some(place), wish.overlaid(&said)))
                .collect()
        }
    };
    // What makes no sense is said before the first one runs.
    for (place, wish) in &wishes {
        let place = place.as_ref().map(|it| format!("{it}: "));
        let named = wish.name.as_ref().filter(|_| place.is_some());
        let named = named.map(|name| format!("target {name}: "));
        let (place, named) = (place.unwrap_or_default(), named.unwrap_or_default());
        wish.drill()
            .validate()
            .map_err(|cannot| format!("{place}{named}{cannot}"))?;
    }
    reports::check(args, wishes.len())?;
    Ok(wishes.into_iter().map(|(_, wish)| wish).collect())
}

fn drill(args: &DrillArgs, wishes: &[Wish]) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(reason) => return reason.say(),
    };
    let mut held = Vec::new();
    for (wish, number) in wishes.iter().zip(1..) {
        let drill = wish.drill().progress(show::Bars::new());
        let report = match hold(&runtime, drill) {
            Ok(report) => report,
            Err(reason) => {
                let name = wish.drill().target_name();
                // Whoever reads it has an object also now, and what was held before is not lost.
                if args.json
                    && let Err(sentence) = reports::json_so_far(&held, &name, &reason.to_string())
                {
                    // The code is that of the reason.
                    output::error(sentence);
                }
                return match wishes {
                    [_] => reason.say(),
                    _ => reason.of_target(&name).say(),
                };
            }
        };
        let told = if args.json {
            Ok(())
        } else {
            reports::text(&report)
        };
        // A page can be written though standard output cannot.
        let written = reports::files(args, &report, number, wishes.len());
        if let Err(sentence) = told.and(written) {
            output::error(sentence);
            return Ending::Usage.into();
        }
        held.push(report);
    }
    if args.json
        && let Err(sentence) = reports::json(&held)
    {
        output::error(sentence);
        return Ending::Usage.into();
    }
    if held.iter().any(|report| report.verdict == Verdict::Failed) {
        return Ending::Findings.into();
    }
    Ending::Clean.into()
}
