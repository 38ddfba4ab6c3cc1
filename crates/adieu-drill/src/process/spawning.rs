//! No look at the processes of the machine falls between the start of one of ours and its entry in the list of those.
//!
//! Such a look would take it for an orphan of the program, and kill it with the program.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held from the start of a process until it is in the list, and for a look at all processes.
pub(super) fn spawning() -> MutexGuard<'static, ()> {
    static SPAWNING: Mutex<()> = Mutex::new(());
    SPAWNING.lock().unwrap_or_else(PoisonError::into_inner)
}
