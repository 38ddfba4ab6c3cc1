//! A drill on the terminal: how it goes, and what came of it.

use std::io::{self, IsTerminal as _};

use adieu_drill::progress::Progress;

mod bars;
mod lines;
mod style;

pub(crate) use style::style;

/// What shows on standard error how a drill goes: bars on a terminal, else a line for each check.
pub(crate) fn progress() -> Box<dyn Progress> {
    if io::stderr().is_terminal() {
        Box::new(bars::Bars::new())
    } else {
        Box::new(lines::Lines)
    }
}
