//! What adieu knows of the operating system, in one place for the library, `adieu run` and `adieu drill`: processes and
//! sockets as Linux lists them, and files that appear whole.
//!
//! An internal crate: its functions may change in any release.
//!
//! On systems without /proc no process and no socket is found.

pub mod file;
pub mod process;
pub mod socket;
mod sys;
