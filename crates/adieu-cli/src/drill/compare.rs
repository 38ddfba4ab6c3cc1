//! `--compare`: what changed from one report to another.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use adieu_drill::compare::Comparison;
use adieu_drill::report::{Report, VERSION};
use serde_json::json;

use crate::output::{self, Ending};
use crate::show;

pub(super) fn compare(before: &Path, after: &Path, as_json: bool) -> Ending {
    let (before, after) = match (read(before), read(after)) {
        (Ok(before), Ok(after)) => (before, after),
        (before, after) => {
            for problem in [before.err(), after.err()].into_iter().flatten() {
                output::error(problem);
            }
            return Ending::Usage;
        }
    };
    let compared = match (&before[..], &after[..]) {
        // Two programs may be compared, and the comparison says that they are two.
        ([before], [after]) => Compared::One(Comparison::of(before, after)),
        _ => Compared::Several(Several::of(&before, &after)),
    };
    let (text, worse) = match &compared {
        Compared::One(one) if as_json => (one.to_json(), one.worse),
        Compared::One(one) => (one.to_text(show::style()), one.worse),
        Compared::Several(several) if as_json => (several.to_json(), several.worse()),
        Compared::Several(several) => (several.to_text(), several.worse()),
    };
    // A reader that stopped reading has what it wanted; the exit code still tells.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    if worse {
        Ending::Findings
    } else {
        Ending::Clean
    }
}

enum Compared {
    One(Comparison),
    Several(Several),
}

/// The targets of two files, by name.
struct Several {
    targets: Vec<(String, Comparison)>,
    /// Targets that one of them lacks, and which.
    alone: Vec<(String, &'static str)>,
}

impl Several {
    fn of(before: &[Report], after: &[Report]) -> Self {
        let named = |reports: &[Report], name: &str| {
            let mut reports = reports.iter();
            reports.find(|report| report.target.name == name).cloned()
        };
        let (mut targets, mut alone) = (Vec::new(), Vec::new());
        for report in after {
            let name = &report.target.name;
            match named(before, name) {
                Some(earlier) => targets.push((name.clone(), Comparison::of(&earlier, report))),
                None => alone.push((name.clone(), "after")),
            }
        }
        let gone = before.iter().map(|report| &report.target.name);
        let gone = gone.filter(|name| named(after, name).is_none());
        alone.extend(gone.map(|name| (name.clone(), "before")));
        Self { targets, alone }
    }

    fn worse(&self) -> bool {
        self.targets.iter().any(|(_, comparison)| comparison.worse)
    }

    fn to_text(&self) -> String {
        let targets = self.targets.iter().map(|(name, comparison)| {
            format!(
                "{}\n{}",
                name.escape_debug(),
                comparison.to_text(show::style())
            )
        });
        let alone = self
            .alone
            .iter()
            .map(|(name, when)| format!("{}: only {when}\n", name.escape_debug()));
        targets.chain(alone).collect::<Vec<_>>().join("\n")
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
        let object = json!({
            "version": VERSION,
            "worse": self.worse(),
            "targets": targets.collect::<Vec<_>>(),
            "alone": alone.collect::<Vec<_>>(),
        });
        format!("{object:#}\n")
    }
}

fn read(path: &Path) -> Result<Vec<Report>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Report::all_from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
}
