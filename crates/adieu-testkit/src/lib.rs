//! What the tests of several crates share. Not published.

#[cfg(unix)]
mod child_process;
#[cfg(target_os = "linux")]
mod delay_network;
mod iterations;
mod reserved_port;
mod scheduling_delay;
mod typing_errors;

#[cfg(unix)]
pub use child_process::{ChildProcess, ProcessEnd};
#[cfg(target_os = "linux")]
pub use delay_network::DelayNetwork;
pub use iterations::iterations;
pub use reserved_port::ReservedPort;
pub use scheduling_delay::SchedulingDelay;
pub use typing_errors::{TypingError, with_typing_errors};
