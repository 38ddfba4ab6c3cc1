//! `--list` and `--explain`.

use std::fmt::Write as _;

use crate::output::{self, Ending};

pub(super) fn list() -> Ending {
    let mut text = String::new();
    let mut group = None;
    for check in adieu_drill::checks() {
        if group != Some(check.group()) {
            group = Some(check.group());
            let _ = writeln!(text, "{}", check.group());
        }
        let quick = if check.quick() { "quick" } else { "" };
        let _ = writeln!(text, "  {:<21}{quick:<7}{}", check.id(), check.why());
    }
    print(&text)
}

pub(super) fn explain(id: &str) -> Ending {
    match adieu_drill::find_check(id) {
        Ok(check) => print(&check.page()),
        Err(sentence) => {
            output::error(sentence);
            Ending::Usage
        }
    }
}

fn print(text: &str) -> Ending {
    match output::print(text) {
        Ok(()) => Ending::Clean,
        Err(sentence) => {
            output::error(sentence);
            Ending::Usage
        }
    }
}
