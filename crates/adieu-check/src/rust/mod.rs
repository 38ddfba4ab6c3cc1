//! Rust: from a file to a unit of the program, without a compile.

mod bodies;
mod crates;
mod grace;
mod guards;
mod items;
mod known;
mod paths;
mod project;
mod select;

pub(crate) use crates::Crates;
pub(crate) use items::extract;
pub(crate) use project::findings;
