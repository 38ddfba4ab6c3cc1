//! What standard output can show.

use std::env;
use std::io::{self, IsTerminal};

use adieu_drill::render::Style;
use console::Term;

/// As wide as the terminal and in colour, or plain if it is none. `NO_COLOR` with any value turns colour off.
pub(crate) fn style() -> Style {
    if !io::stdout().is_terminal() {
        return Style::PLAIN;
    }
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let width = Term::stdout().size_checked();
    Style {
        width: width.map_or(Style::PLAIN.width, |(_, columns)| usize::from(columns)),
        colour: !set("NO_COLOR") && !dumb,
    }
}
