//! The worker as a process: stopped, killed, started again, and started wrongly.
#![cfg(unix)]

mod child;
mod drill;
mod handed_over;
mod killed;
mod refused;
mod stopped;
