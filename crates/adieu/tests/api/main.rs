//! The promises that need no process of their own, through the public API and on a paused clock.

mod clues;

mod blocking;
mod children;
mod consumers;
mod groups;
mod hooks;
mod limits;
mod notices;
#[cfg(feature = "state")]
mod pollers;
#[cfg(feature = "testing")]
mod reloads;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod replicas;
mod restarts;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod schedules;
mod scopes;
mod setups;
mod shields;
mod snapshots;
mod stop_handle;
#[cfg(feature = "testing")]
mod third_signal;
mod too_late;
#[cfg(all(target_os = "linux", feature = "watch"))]
mod watched_files;
