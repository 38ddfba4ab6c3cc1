//! `adieu drill`.

mod args;
mod behind;
mod catalogue;
mod compare;
mod execute;
mod file;
mod github;
mod jobs;
mod options;
mod output;
mod rollout;
mod run;

pub(crate) use args::DrillArgs;
pub(crate) use execute::{NoReport, run_drill, runtime};
pub(crate) use run::{ending, run};
