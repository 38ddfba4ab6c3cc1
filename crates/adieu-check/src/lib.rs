//! Finds what breaks a graceful stop before it runs.
//!
//! Python and Rust sources are parsed, their calls are followed through the whole project, and
//! what blocks an event loop, swallows a cancellation or loses a task is reported where the async
//! code starts it, with the way down. Go, TypeScript and JavaScript are read for what their programs
//! do with signals and servers. Dockerfiles, compose files, Kubernetes manifests, systemd
//! units and start scripts are read for what keeps a signal from its program.
//!
//! The way through this crate is the way of the data:
//!
//! 1. [`walk`](crate::Request) finds the files, as git sees them;
//! 2. `python`, `rust`, `go`, `node` and `deploy` read each file, in parallel, into a small summary;
//! 3. `callgraph` links the summaries and spreads what blocks from callee to caller;
//! 4. ignore comments, the [`Selection`] and the [`Baseline`] decide what is said;
//! 5. [`report`] says it.

mod baseline;
mod budget;
mod callgraph;
mod check;
mod config;
mod deploy;
mod depth;
mod finding;
mod fix;
mod flat_tree;
mod fuzz;
mod go;
mod node;
mod noqa;
mod python;
mod repair;
pub mod report;
mod role;
mod rule;
mod rust;
mod severity;
mod source;
mod suppress;
mod tree;
mod walk;

pub use baseline::{Baseline, BaselineError, BaselineFile};
pub use budget::{Bound, Budget, BudgetNode, Origin, Patience, Shape, Verdict};
pub use check::{Given, Outcome, Request, check};
pub use config::{Config, ConfigError};
pub use finding::{Finding, Notice, Place, Step};
pub use fix::{Applicability, Fix};
#[doc(hidden)]
pub use fuzz::check_text;
pub use repair::{Change, Repaired, Repairs};
pub use rule::{Code, Rule, Selection, UnknownRules};
pub use severity::Severity;
pub use source::LARGEST_FILE;
