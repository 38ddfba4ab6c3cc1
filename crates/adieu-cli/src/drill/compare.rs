//! `--compare`: what changed from one report to another.

use std::fs;
use std::path::Path;

use adieu_drill::compare::Comparison;
use adieu_drill::report::{Outcome, Report, VERSION};
use serde_json::{Value, json};

use crate::output::{self, ExitKind};
use crate::ui;

pub(super) fn compare(before: &Path, after: &Path, as_json: bool) -> ExitKind {
    let (before, after) = match (read(before), read(after)) {
        (Ok(before), Ok(after)) => (before, after),
        (before, after) => {
            for problem in [before.err(), after.err()].into_iter().flatten() {
                output::error(problem);
            }
            return ExitKind::Usage;
        }
    };
    let compared = match (&before.reports[..], &after.reports[..]) {
        // Two programs may be compared, and the comparison says that they are two.
        ([before], [report]) if after.errors.is_empty() => {
            Compared::One(Comparison::of(before, report))
        }
        (before, _) => Compared::Several(Several::of(before, &after)),
    };
    let (text, worse) = match &compared {
        Compared::One(one) if as_json => (one.to_json(), one.worse),
        Compared::One(one) => (one.to_text(ui::style()), one.worse),
        Compared::Several(several) if as_json => (several.to_json(), several.worse()),
        Compared::Several(several) => (several.to_text(), several.worse()),
    };
    if let Err(sentence) = output::print(&text) {
        output::error(sentence);
        return ExitKind::Usage;
    }
    if worse {
        ExitKind::Findings
    } else {
        ExitKind::Clean
    }
}

enum Compared {
    One(Comparison),
    Several(Several),
}

/// What a file holds.
struct Held {
    reports: Vec<Report>,
    /// The targets that could not be drilled, and why.
    errors: Vec<(String, String)>,
}

/// The targets of two files, by name.
struct Several {
    targets: Vec<(String, Comparison)>,
    /// Targets of which something passed before and that could not be drilled after, and why.
    broken: Vec<(String, String)>,
    /// Targets that one of them lacks, and which.
    alone: Vec<(String, &'static str)>,
}

impl Several {
    fn of(before: &[Report], after: &Held) -> Self {
        let named = |reports: &[Report], name: &str| {
            let mut reports = reports.iter();
            reports.find(|report| report.target.name == name).cloned()
        };
        let (mut targets, mut alone) = (Vec::new(), Vec::new());
        for report in &after.reports {
            let name = &report.target.name;
            match named(before, name) {
                Some(earlier) => targets.push((name.clone(), Comparison::of(&earlier, report))),
                None => alone.push((name.clone(), "after")),
            }
        }
        let gone = before.iter().map(|report| &report.target.name);
        let gone = gone.filter(|name| named(&after.reports, name).is_none());
        alone.extend(gone.map(|name| (name.clone(), "before")));
        let passed = |name: &str| {
            named(before, name).is_some_and(|report| report.count(Outcome::Passed) > 0)
        };
        let broken = after.errors.iter().filter(|(name, _)| passed(name));
        let broken: Vec<_> = broken.cloned().collect();
        alone.retain(|(name, _)| !broken.iter().any(|(broken, _)| broken == name));
        Self {
            targets,
            broken,
            alone,
        }
    }

    fn worse(&self) -> bool {
        !self.broken.is_empty() || self.targets.iter().any(|(_, comparison)| comparison.worse)
    }

    fn to_text(&self) -> String {
        let targets = self.targets.iter().map(|(name, comparison)| {
            format!(
                "{}\n{}",
                name.escape_debug(),
                comparison.to_text(ui::style())
            )
        });
        let alone = self
            .alone
            .iter()
            .map(|(name, when)| format!("{}: only {when}\n", name.escape_debug()));
        let broken = self.broken.iter().map(|(name, error)| {
            let first = error.lines().next().unwrap_or_default();
            format!(
                "{}\n✗ worse   it passed before and cannot be drilled after\n          {}\n",
                name.escape_debug(),
                first.escape_debug()
            )
        });
        let texts = targets.chain(broken).chain(alone);
        texts.collect::<Vec<_>>().join("\n")
    }

    fn to_json(&self) -> String {
        let targets = self
            .targets
            .iter()
            .map(|(name, comparison)| json!({ "name": name, "comparison": comparison }));
        let alone = self
            .alone
            .iter()
            .map(|(name, when)| json!({ "name": name, "only": when }));
        let broken = self
            .broken
            .iter()
            .map(|(name, error)| json!({ "name": name, "error": error }));
        let object = json!({
            "version": VERSION,
            "worse": self.worse(),
            "targets": targets.collect::<Vec<_>>(),
            "broken": broken.collect::<Vec<_>>(),
            "alone": alone.collect::<Vec<_>>(),
        });
        format!("{object:#}\n")
    }
}

fn read(path: &Path) -> Result<Held, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let reports = Report::all_from_json(&text);
    let reports = reports.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Held {
        reports,
        errors: errors(&text),
    })
}

/// What `--json` says of targets that could not be drilled.
fn errors(json: &str) -> Vec<(String, String)> {
    let object: Value = serde_json::from_str(json).unwrap_or_default();
    let errors = object["errors"].as_array().into_iter().flatten();
    let word = |error: &Value, key: &str| error[key].as_str().map(str::to_owned);
    errors
        .filter_map(|error| Some((word(error, "target")?, word(error, "error")?)))
        .collect()
}
