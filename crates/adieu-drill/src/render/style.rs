//! How wide and how colourful.

use anstyle::{AnsiColor, Effects};

/// How wide and how colourful text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Lines that hold one unbreakable word may be longer.
    pub width: usize,
    /// Whether escape sequences for colour are understood and wanted.
    pub colour: bool,
}

impl Style {
    /// For a file, a pipe, a log: no colour, a hundred columns.
    pub const PLAIN: Self = Self {
        width: 100,
        colour: false,
    };

    /// Columns that can be drawn on: a chart of a handful is none, and no eye follows a line of three hundred.
    pub(crate) fn columns(self) -> usize {
        self.width.clamp(60, 140)
    }

    pub(crate) fn paint(self, tone: Tone, words: &str) -> String {
        if !self.colour || words.is_empty() {
            return words.to_owned();
        }
        let style = tone.style();
        format!("{style}{words}{style:#}")
    }
}

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Careful,
    Heading,
    Aside,
}

impl Tone {
    fn style(self) -> anstyle::Style {
        let plain = anstyle::Style::new();
        match self {
            Self::Good => plain.fg_color(Some(AnsiColor::Green.into())),
            Self::Bad => plain
                .fg_color(Some(AnsiColor::Red.into()))
                .effects(Effects::BOLD),
            Self::Careful => plain.fg_color(Some(AnsiColor::Yellow.into())),
            Self::Heading => plain.effects(Effects::BOLD),
            Self::Aside => plain.effects(Effects::DIMMED),
        }
    }
}
