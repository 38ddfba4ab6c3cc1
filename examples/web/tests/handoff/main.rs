//! Listeners that come from elsewhere: from the parent process, and from the process before it.
#![cfg(target_os = "linux")]

mod failures;
mod generations;
mod inherited;
mod lineage;
mod systemd;
