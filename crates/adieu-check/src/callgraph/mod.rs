//! What both languages look like to the call graph.
//!
//! A file becomes a [`FileSummary`]: its functions with the calls they make, its classes, its names.
//! A call is kept as a *path*, one string that says how to reach the callee:
//!
//! | path | means |
//! |---|---|
//! | `time.sleep` | a name outside the project |
//! | `@7.load` | `load` in module 7 of the project |
//! | `@7#3`, `@7$2` | the third function, the second class of module 7 (nested ones have no name) |
//! | `@7$2~` | `super()` inside that class |
//! | `queue.Queue()` | the value of that call: an instance |
//! | `@7.fetch()!` | the value of awaiting that call |
//! | `queue.Queue().get` | an attribute of that value |
//! | `@7$2().?total` | the property that reading that attribute runs |
//! | `threading.Lock().__hold__` | the lock is held over an await |
//! | `@?` | cannot be followed |
//!
//! Paths are cheap to build while walking a tree. [`Targets`] has each of them resolved once by
//! [`Linker`], when all files are known. [`Reach`] then spreads what blocks from callee to caller.

mod link;
mod modules;
mod mro;
pub(crate) mod path;
mod reach;
mod steps;
mod summary;
mod targets;

pub(crate) use link::{Entity, Linker};
pub(crate) use modules::{ModuleId, Modules};
pub(crate) use reach::{Hop, Reach};
pub(crate) use steps::{Length, StopStep, after_run};
pub(crate) use summary::{
    Call, CallFlags, Class, CodeGrace, CodeServer, Extension, Facts, FileSummary, FnFlags,
    Function, Hook, Moment, NameId, Symbol, Timed,
};
pub(crate) use targets::{Leaf, Target, Targets, blocks, runs, spoken};
