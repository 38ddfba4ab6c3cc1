//! From the arguments to the exit code.

use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adieu_check::report::{self, Cause, Format, plain};
use adieu_check::{
    Applicability, Baseline, BaselineFile, Config, Given, LARGEST_FILE, Notice, Outcome, Repaired,
    Repairs, Request, Rule, Selection, Severity,
};

use super::args::CheckArgs;
use super::lsp;
use super::progress::Progress;
use crate::output::{self, ExitKind};

/// Where a baseline goes if no file is named.
const BASELINE: &str = "adieu-baseline.json";

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let ending = match &args.explain {
        Some(rule) => explain(rule),
        None if args.lsp => lsp::serve(args.config.as_deref()),
        None => check(args),
    };
    ending.into()
}

fn explain(word: &str) -> ExitKind {
    let Some(rule) = Rule::find(word) else {
        let codes: Vec<&str> = Rule::ALL.iter().map(|rule| rule.code.as_str()).collect();
        output::error(format!(
            "`{}` is not a rule. The rules are {}.",
            plain(word),
            codes.join(", ")
        ));
        return ExitKind::Usage;
    };
    // A reader that stopped reading has what it wanted.
    let _ = io::stdout().lock().write_all(rule.page.as_bytes());
    ExitKind::Clean
}

fn check(args: &CheckArgs) -> ExitKind {
    let start = args.paths.first().map_or(Path::new("."), PathBuf::as_path);
    let config = match &args.config {
        Some(path) => Config::read(path),
        None => Config::find(start),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            output::error(error);
            return ExitKind::Usage;
        }
    };
    let (selection, mut misused) = select(args, &config);
    if selection.is_empty() {
        output::error("no rule is selected");
        return ExitKind::Usage;
    }
    let baseline_file = match &args.baseline {
        Some(path) => Some(BaselineFile::named(path)),
        None => BaselineFile::of(&config),
    };
    let (paths, given) = match inputs(args) {
        Ok(inputs) => inputs,
        Err(message) => {
            output::error(message);
            return ExitKind::Usage;
        }
    };
    let request = Request {
        paths,
        config,
        selection,
        budget: args.budget,
        given,
    };
    let mut outcome = look(&request);
    for path in &outcome.missing {
        let path = path.to_string_lossy();
        output::error(format!("{}: no such file or directory", plain(&path)));
        misused = true;
    }
    say(&outcome.notices);
    if args.write_baseline {
        outcome.leave_out_below(args.show.into());
        return write_baseline(&outcome, baseline_file, misused);
    }
    if args.add_noqa {
        // What is known, and what is less than is shown, needs no comment.
        if let Some(baseline) = baseline_file
            .as_ref()
            .and_then(|file| Baseline::read(file).ok())
        {
            outcome.findings = baseline.subtract(std::mem::take(&mut outcome.findings)).0;
        }
        outcome.leave_out_below(args.show.into());
        say(&outcome.ignore_each(&request));
        if args.diff {
            return diff(&request, outcome, Applicability::Safe, misused);
        }
        outcome = fix(&request, outcome, Applicability::Safe);
    } else if args.diff {
        return diff(&request, outcome, args.repairs(), misused);
    }
    if args.fix {
        outcome = fix(&request, outcome, args.repairs());
    }
    if let Some(file) = baseline_file {
        match Baseline::read(&file) {
            Ok(baseline) => {
                let (fresh, known) = baseline.subtract(std::mem::take(&mut outcome.findings));
                outcome.findings = fresh;
                if known > 0 {
                    let known = count(known, "known finding");
                    let path = file.path().to_string_lossy();
                    output::note(format!("{known} in {}", plain(&path)));
                }
            }
            Err(error) => {
                output::error(error);
                misused = true;
            }
        }
    }
    let causes = outcome.causes(MANY);
    let hidden = outcome.leave_out_below(args.show.into());
    if args.budget {
        print_budgets(&outcome, args.format.into());
    } else if args.statistics {
        print_statistics(&outcome, args.format.into());
    } else {
        print(&outcome, &causes, hidden, args.format.into());
    }
    if misused {
        ExitKind::Usage
    } else if outcome.findings.is_empty() || args.exit_zero {
        ExitKind::Clean
    } else {
        ExitKind::Findings
    }
}

/// What is checked: the paths, or standard input alone.
fn inputs(args: &CheckArgs) -> Result<(Vec<PathBuf>, Option<Given>), String> {
    let is_standard = |path: &PathBuf| path.as_os_str() == "-";
    if !args.paths.iter().any(is_standard) {
        return match &args.stdin_filename {
            Some(_) => {
                Err("--stdin-filename names standard input: give `-` as the path".to_owned())
            }
            None => Ok((args.paths.clone(), None)),
        };
    }
    if args.paths.len() > 1 {
        return Err("`-` is standard input, and is checked alone".to_owned());
    }
    if args.fix || args.diff || args.add_noqa {
        return Err("standard input cannot be repaired: name the file instead of `-`".to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than is checked, so that the check can say that it is too much.
    io::stdin()
        .lock()
        .take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;
    let name = args.stdin_filename.clone();
    Ok((Vec::new(), Some(Given { name, bytes })))
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
    let extend = [&*config.extend_select, &*args.extend_select].concat();
    let preview = args.preview || config.preview;
    let (_, unknown_extend) = Selection::new(&extend, &[], preview);
    let mut select = select.clone();
    // All rules run where none is selected, and there is nothing to add.
    if !select.is_empty() {
        select.extend(extend);
        select.retain(|word| !unknown_extend.0.contains(word));
    }
    let mut ignore = config.ignore.clone();
    ignore.extend(args.ignore.iter().cloned());
    let (selection, unknown) = Selection::new(&select, &ignore, preview);
    let mut words = unknown.0;
    words.extend(unknown_extend.0);
    words.extend(config.unknown_rules());
    for word in &words {
        let word = plain(word);
        output::error(format!(
            "`{word}` is not a rule; the other rules are checked"
        ));
    }
    (selection, !words.is_empty())
}

fn write_baseline(outcome: &Outcome, file: Option<BaselineFile>, misused: bool) -> ExitKind {
    let file = file.unwrap_or_else(|| BaselineFile::named(Path::new(BASELINE)));
    match Baseline::of(&outcome.findings, &file).write(&file) {
        Ok(()) => {
            output::note(format!(
                "{} now known in {}",
                count(outcome.findings.len(), "finding"),
                plain(&file.path().to_string_lossy())
            ));
            if misused {
                ExitKind::Usage
            } else {
                ExitKind::Clean
            }
        }
        Err(error) => {
            output::error(error);
            ExitKind::Usage
        }
    }
}

/// Tries the repairs, and gives those that hold.
fn plan(request: &Request, outcome: Outcome, most: Applicability) -> Repairs {
    let progress = Progress::default();
    let repairs = Repairs::plan(request, outcome, most, &|done, total| {
        progress.step(done, total)
    });
    progress.finish();
    repairs
}

/// Repairs what can be repaired, and gives what is found after that.
fn fix(request: &Request, outcome: Outcome, most: Applicability) -> Outcome {
    let repairs = plan(request, outcome, most);
    let progress = Progress::default();
    let Repaired {
        outcome,
        repaired,
        refused,
    } = repairs.apply(request, &|done, total| progress.step(done, total));
    progress.finish();
    say(&refused);
    if repaired > 0 {
        output::note(format!("{} repaired", count(repaired, "finding")));
    }
    outcome
}

/// Shows what [`fix`] would write.
fn diff(request: &Request, outcome: Outcome, most: Applicability, misused: bool) -> ExitKind {
    let unsafe_fixes = outcome.fixable(Applicability::Unsafe);
    let repairs = plan(request, outcome, most);
    say(repairs.refused());
    let text: String = repairs
        .changes()
        .map(|change| report::diff(change.path, change.before, change.after))
        .collect();
    if let Err(message) = output::print(&text) {
        output::error(message);
        return ExitKind::Usage;
    }
    if most == Applicability::Safe && unsafe_fixes > 0 {
        output::note(format!(
            "{} more repairable with --unsafe-fixes",
            count(unsafe_fixes, "finding")
        ));
    }
    let files = repairs.changes().count();
    if files > 0 {
        let words = match most {
            Applicability::Safe => "--fix",
            Applicability::Unsafe => "--fix --unsafe-fixes",
        };
        output::note(format!(
            "{words} would repair {} in {}",
            count(repairs.findings(), "finding"),
            count(files, "file")
        ));
    }
    if misused {
        ExitKind::Usage
    } else if files > 0 {
        ExitKind::Findings
    } else {
        ExitKind::Clean
    }
}

fn say(notices: &[Notice]) {
    for Notice { path, message } in notices {
        output::note(format!("{}: {}", plain(path), plain(message)));
    }
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

fn print_budgets(outcome: &Outcome, format: Format) {
    let mut out = BufWriter::new(io::stdout().lock());
    // A pipe closed early is the reader's choice; the exit code still tells.
    let _ = match format {
        Format::Text => report::budgets(outcome, &mut out),
        Format::Json => report::budgets_json(outcome, &mut out),
        other => report::write(outcome, other, &mut out),
    }
    .and_then(|()| out.flush());
    if format == Format::Text {
        if outcome.budgets.is_empty() {
            output::note(
                "nothing here starts a server or a worker that is known, so there is no shutdown time to compute",
            );
            return;
        }
        let wrong = outcome
            .findings
            .iter()
            .filter(|it| it.code.as_str().starts_with("ADD6"));
        output::note(format!(
            "{} of {} may be killed before they have stopped",
            wrong.count(),
            count(outcome.budgets.len(), "program")
        ));
    }
}

fn print_statistics(outcome: &Outcome, format: Format) {
    let mut out = BufWriter::new(io::stdout().lock());
    // A pipe closed early is the reader's choice; the exit code still tells.
    let _ = match format {
        Format::Json => report::statistics_json(outcome, &mut out),
        _ => report::statistics(outcome, &mut out),
    }
    .and_then(|()| out.flush());
}

fn print(outcome: &Outcome, causes: &[Cause], hidden: usize, format: Format) {
    let mut out = BufWriter::new(io::stdout().lock());
    // A pipe closed early is the reader's choice; the exit code still tells.
    let _ = report::write(outcome, format, &mut out).and_then(|()| out.flush());
    if format != Format::Text {
        return;
    }
    if !outcome.findings.is_empty() {
        let fixable = match (
            outcome.fixable(Applicability::Safe),
            outcome.fixable(Applicability::Unsafe),
        ) {
            (0, 0) => String::new(),
            (safe, 0) => format!(", {safe} repairable with --fix"),
            (0, more) => format!(", {more} repairable with --fix --unsafe-fixes"),
            (safe, more) => {
                format!(", {safe} repairable with --fix, {more} more with --fix --unsafe-fixes")
            }
        };
        output::note(format!(
            "{} in {}{fixable}",
            counts(outcome),
            count(outcome.files, "file")
        ));
        for cause in causes.iter().take(MOST_CAUSES) {
            output::note(format!(
                "{} ways end at {}:{}:{}: {}",
                cause.findings,
                plain(&cause.path),
                cause.place.line,
                cause.place.column,
                plain(&cause.call)
            ));
        }
    }
    if hidden > 0 {
        let less = count(hidden, "finding");
        output::note(format!(
            "{less} of less weight not shown; `--show notes` shows all"
        ));
    }
}

/// `1 error, 2 warnings`
fn counts(outcome: &Outcome) -> String {
    let of = |severity: Severity, what: &str| {
        let findings = outcome.findings.iter();
        match findings.filter(|it| it.severity == severity).count() {
            0 => None,
            number => Some(count(number, what)),
        }
    };
    let counts = [
        of(Severity::Error, "error"),
        of(Severity::Warning, "warning"),
        of(Severity::Note, "note"),
    ];
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
