//! The program under drill, as a process: started in a group of its own, watched, signalled, and never left behind.
//!
//! What differs between systems is in `system`, and in `kin` who belongs to the program: one file for each.

pub(crate) mod errand;
mod form;
#[cfg_attr(windows, path = "job.rs")]
mod kin;
mod launch;
mod output;
mod ports;
mod ready;
mod subject;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

pub(crate) use form::Form;
pub(crate) use kin::Reaper;
pub(crate) use launch::Launch;
pub(crate) use ports::Blanks;
pub use ready::Ready;
pub(crate) use subject::{Ended, Subject, describe};
pub(crate) use system::{Signal, ended_by, held_socket, not_here};
