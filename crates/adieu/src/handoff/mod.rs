//! Hand-off: the next process takes over the listeners, and this one drains.
//!
//! The two talk over a socket pair, line by line, so that at every moment exactly one of them has the listeners:
//!
//! | who | says | and then |
//! |---|---|---|
//! | next | `ready` | setup has returned and every check passes; it accepts nothing yet |
//! | this | `go` | the next one begins to accept, and so does not keep what a roll-back would lose |
//! | next | `serving [names]` | every server of it listens; these listeners it has taken |
//! | this | `yours` | this one stops accepting and drains; the listeners are the next one's to close |
//!
//! Until `yours` the next process may be ended at any time, and nothing has happened. When the socket closes early,
//! each side knows that the other one is gone or has given up: this one goes on, the next one stops.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod manifest;
mod new_process;
mod old_process;

pub(crate) use new_process::{Predecessor, from_environment};
pub(crate) use old_process::own_command;

/// Makes the command that starts the next process.
pub(crate) type MakeCommand = Box<dyn FnMut() -> std::process::Command + Send>;
