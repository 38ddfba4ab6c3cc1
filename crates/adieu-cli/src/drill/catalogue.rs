//! `--list`, `--explain` and `--schema`.

use std::fmt::Write as _;

use adieu_drill::CheckInfo;

use crate::output::{self, ExitKind};

fn all_checks() -> impl Iterator<Item = CheckInfo> {
    adieu_drill::checks()
        .chain(adieu_drill::rollout_checks())
        .chain(adieu_drill::behind_checks())
        .chain(adieu_drill::jobs_checks())
}

pub(super) fn list() -> ExitKind {
    let mut text = String::new();
    let mut group = None;
    for check in all_checks() {
        if group != Some(check.group()) {
            group = Some(check.group());
            let _ = writeln!(text, "{}", check.group());
        }
        let quick = if check.quick() { "quick" } else { "" };
        let _ = writeln!(text, "  {:<21}{quick:<7}{}", check.id(), check.why());
    }
    print(&text)
}

pub(super) fn explain(id: &str) -> ExitKind {
    match adieu_drill::find_check(id) {
        Ok(check) => print(&check.page()),
        Err(sentence) => {
            output::error(sentence);
            ExitKind::Usage
        }
    }
}

pub(super) fn schema() -> ExitKind {
    print(adieu_drill::report::SCHEMA)
}

fn print(text: &str) -> ExitKind {
    match output::print(text) {
        Ok(()) => ExitKind::Clean,
        Err(sentence) => {
            output::error(sentence);
            ExitKind::Usage
        }
    }
}
