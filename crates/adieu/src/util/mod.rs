//! What every layer may use and what knows no service: durations, a latch, a mailbox, panics, retries, spans, the system.

pub(crate) mod duration;
pub(crate) mod latch;
pub(crate) mod mailbox;
pub(crate) mod panics;
pub(crate) mod printable;
pub(crate) mod retry;
pub(crate) mod spans;
pub(crate) mod sys;
