//! From the arguments to the exit code.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adieu_check::report::{self, Format};
use adieu_check::{Baseline, Config, Fix, Outcome, Request, Rule, Selection};

use super::args::CheckArgs;
use super::progress::Progress;
use crate::output::{self, Ending};

/// Where a baseline goes when nobody names a file.
const BASELINE: &str = "adieu-baseline.json";

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let ending = match &args.explain {
        Some(rule) => explain(rule),
        None => check(args),
    };
    ending.into()
}

fn explain(word: &str) -> Ending {
    let Some(rule) = Rule::find(word) else {
        let codes: Vec<&str> = Rule::ALL.iter().map(|rule| rule.code.as_str()).collect();
        output::error(format!(
            "`{word}` is no rule. The rules are {}.",
            codes.join(", ")
        ));
        return Ending::Usage;
    };
    // A reader that stopped reading has what it wanted.
    let _ = io::stdout().lock().write_all(rule.page.as_bytes());
    Ending::Clean
}

fn check(args: &CheckArgs) -> Ending {
    let start = args.paths.first().map_or(Path::new("."), PathBuf::as_path);
    let config = match &args.config {
        Some(path) => Config::read(path),
        None => Config::find(start),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            output::error(error);
            return Ending::Usage;
        }
    };
    let (selection, mut misused) = select(args, &config);
    if selection.is_empty() {
        output::error("no rule is selected");
        return Ending::Usage;
    }
    let baseline_file = args.baseline.clone().or_else(|| config.baseline.clone());
    let request = Request {
        paths: args.paths.clone(),
        config,
        selection,
    };
    let mut outcome = look(&request);
    for path in &outcome.missing {
        output::error(format!("{}: no such file or folder", path.display()));
        misused = true;
    }
    for notice in &outcome.notices {
        output::note(format!("{}: {}", notice.path, notice.message));
    }
    if args.write_baseline {
        return write_baseline(&outcome, baseline_file, misused);
    }
    if args.fix && fix(&outcome) {
        // Lines have moved, and what was repaired is gone.
        outcome = look(&request);
    }
    if let Some(path) = baseline_file {
        match Baseline::read(&path) {
            Ok(baseline) => {
                let (fresh, known) = baseline.subtract(std::mem::take(&mut outcome.findings));
                outcome.findings = fresh;
                if known > 0 {
                    let known = count(known, "known finding");
                    output::note(format!("{known} in {}", path.display()));
                }
            }
            Err(error) => {
                output::error(error);
                misused = true;
            }
        }
    }
    print(&outcome, args.format.into());
    if misused {
        Ending::Usage
    } else if outcome.findings.is_empty() {
        Ending::Clean
    } else {
        Ending::Findings
    }
}

fn look(request: &Request) -> Outcome {
    let progress = Progress::default();
    let outcome = adieu_check::check(request, &|done, total| progress.step(done, total));
    progress.finish();
    outcome
}

/// The command line wins over the file, as a whole list.
fn select(args: &CheckArgs, config: &Config) -> (Selection, bool) {
    let select = if args.select.is_empty() {
        &config.select
    } else {
        &args.select
    };
    let mut ignore = config.ignore.clone();
    ignore.extend(args.ignore.iter().cloned());
    let (selection, unknown) = Selection::new(select, &ignore);
    let mut words = unknown.0;
    words.extend(config.unknown_rules());
    for word in &words {
        output::error(format!("`{word}` is no rule; the other rules are checked"));
    }
    (selection, !words.is_empty())
}

fn write_baseline(outcome: &Outcome, file: Option<PathBuf>, misused: bool) -> Ending {
    let path = file.unwrap_or_else(|| PathBuf::from(BASELINE));
    match Baseline::of(&outcome.findings, &path).write(&path) {
        Ok(()) => {
            output::note(format!(
                "{} now known in {}",
                count(outcome.findings.len(), "finding"),
                path.display()
            ));
            if misused {
                Ending::Usage
            } else {
                Ending::Clean
            }
        }
        Err(error) => {
            output::error(error);
            Ending::Usage
        }
    }
}

/// Whether anything was repaired.
fn fix(outcome: &Outcome) -> bool {
    let mut by_path: BTreeMap<&str, Vec<Fix>> = BTreeMap::new();
    for finding in &outcome.findings {
        if let Some(fix) = &finding.fix {
            by_path.entry(&finding.path).or_default().push(fix.clone());
        }
    }
    let mut total = 0;
    for (path, fixes) in by_path {
        match adieu_check::apply_to_file(Path::new(path), &fixes) {
            Ok(applied) => total += applied,
            Err(error) => output::error(format!("{path}: cannot be repaired: {error}")),
        }
    }
    if total > 0 {
        output::note(format!("{} repaired", count(total, "finding")));
    }
    total > 0
}

/// `1 finding`, `2 findings`.
fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Fewer findings that meet are mended one by one.
const MANY: usize = 3;
/// A list of causes longer than this is again a list of findings.
const MOST_CAUSES: usize = 5;

fn print(outcome: &Outcome, format: Format) {
    let mut out = BufWriter::new(io::stdout().lock());
    // A pipe closed early is the reader's choice; the exit code still tells.
    let _ = report::write(outcome, format, &mut out).and_then(|()| out.flush());
    if format == Format::Text && !outcome.findings.is_empty() {
        let fixable = match outcome.fixable() {
            0 => String::new(),
            fixable => format!(", {fixable} repairable with --fix"),
        };
        output::note(format!(
            "{} in {}{fixable}",
            count(outcome.findings.len(), "finding"),
            count(outcome.files, "file")
        ));
        for cause in outcome.causes(MANY).into_iter().take(MOST_CAUSES) {
            output::note(format!(
                "{} of them end at {}:{}:{}: {}",
                cause.findings, cause.path, cause.place.line, cause.place.column, cause.call
            ));
        }
    }
}
