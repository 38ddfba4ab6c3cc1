//! The program under drill, as a process: started in a group of its own, watched, signalled, and never left behind.
//!
//! What differs between systems is in `system`, and in `process_tree` which processes belong to the program: one file for each.

#[cfg(unix)]
pub mod guard;
pub(crate) mod helper_command;
mod launch;
mod launch_mode;
mod observed_command;
mod output;
mod placeholders;
#[cfg_attr(windows, path = "process_tree_windows.rs")]
mod process_tree;
mod ready;
mod spawning;
mod stop_signal;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
mod target_process;

pub(crate) use launch::Launch;
pub(crate) use launch_mode::LaunchMode;
pub(crate) use observed_command::ObservedCommand;
pub(crate) use placeholders::Placeholders;
pub(crate) use process_tree::{ProcInfo, Reaper};
pub use ready::Ready;
pub use stop_signal::StopSignal;
pub(crate) use system::{Signal, ended_by, held_socket, not_here};
pub(crate) use target_process::{Ended, TargetProcess, describe};
