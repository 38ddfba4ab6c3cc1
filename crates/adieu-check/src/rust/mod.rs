//! Rust: from a file to a summary of the program, without a compile.

mod bodies;
mod crates;
mod grace;
mod guards;
mod items;
mod models;
mod paths;
mod project;
mod select;
mod weight;

pub(crate) use crates::Crates;
pub(crate) use items::extract;
pub(crate) use project::findings;
