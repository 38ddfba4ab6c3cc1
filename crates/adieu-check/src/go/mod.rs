//! Go: from a file to what its program does about signals and servers.

mod names;
mod project;
mod rules;
mod summary;

pub(crate) use project::findings;
pub(crate) use summary::{GoFile, extract};
