//! Python: from a file to its summary, and the rules that need one function only.

mod bindings;
mod calls;
mod canonical;
mod definitions;
mod extract;
mod grace;
mod guards;
mod hooks;
mod imports;
mod models;
mod paths;
mod project;
mod rules;
mod stop;
mod tidy;
mod values;
mod weight;

pub(crate) use extract::extract;
pub(crate) use imports::Position;
pub(crate) use models::clients::{Clients, Line as ClientLine};
pub(crate) use project::{findings, linker};
pub(crate) use tidy::tidy_imports;
