//! `adieu drill`.

mod args;
mod catalogue;
mod compare;
mod file;
mod hold;
mod output;
mod run;
mod wish;

pub(crate) use args::DrillArgs;
pub(crate) use hold::{NoReport, hold, runtime};
pub(crate) use run::run;
