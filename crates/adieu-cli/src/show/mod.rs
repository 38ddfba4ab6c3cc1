//! A drill on the terminal: how it goes, and what came of it.

mod bars;
mod style;

pub(crate) use bars::Bars;
pub(crate) use style::style;
