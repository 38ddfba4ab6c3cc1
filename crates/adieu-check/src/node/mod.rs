//! TypeScript and JavaScript on Node.js: from a file to what its program does about signals and servers.

mod names;
mod packages;
mod project;
mod rules;
mod summary;

pub(crate) use packages::Packages;
pub(crate) use project::findings;
pub(crate) use summary::{NodeFile, extract};
