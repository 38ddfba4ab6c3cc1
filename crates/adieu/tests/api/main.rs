//! The promises that need no process of their own, through the public API and on a paused clock.

mod clues;

mod blocking;
mod children;
#[cfg(all(target_os = "linux", feature = "schedule"))]
mod clock_set;
mod consumers;
mod custom;
mod failures;
mod groups;
mod handles;
mod hooks;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod leases;
mod limits;
mod notices;
mod pages;
#[cfg(feature = "state")]
mod pollers;
mod registered;
#[cfg(feature = "testing")]
mod reloads;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod replicas;
mod restarts;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod schedules;
mod scopes;
mod setups;
#[cfg(all(feature = "schedule", feature = "testing"))]
mod shared;
mod shields;
mod snapshots;
mod starts;
mod stop_handle;
#[cfg(feature = "testing")]
mod sweeps;
#[cfg(feature = "testing")]
mod third_signal;
mod too_late;
#[cfg(all(target_os = "linux", feature = "watch"))]
mod watched_files;
