//! `adieu check`.

mod args;
mod lsp;
mod progress;
mod run;

pub(crate) use args::CheckArgs;
pub(crate) use run::run;
