//! `--compare`: what changed from one report to another.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use adieu_drill::compare::Comparison;
use adieu_drill::report::Report;

use crate::output::{self, Ending};
use crate::show;

pub(super) fn compare(before: &Path, after: &Path, json: bool) -> Ending {
    let (before, after) = match (read(before), read(after)) {
        (Ok(before), Ok(after)) => (before, after),
        (before, after) => {
            for problem in [before.err(), after.err()].into_iter().flatten() {
                output::error(problem);
            }
            return Ending::Usage;
        }
    };
    let comparison = Comparison::of(&before, &after);
    let text = if json {
        comparison.to_json()
    } else {
        comparison.to_text(show::style())
    };
    // A reader that stopped reading has what it wanted; the exit code still tells.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    if comparison.worse {
        Ending::Findings
    } else {
        Ending::Clean
    }
}

fn read(path: &Path) -> Result<Report, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Report::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
}
