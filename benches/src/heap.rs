//! A heap that keeps what it has: glibc gives memory back to the kernel whenever enough lies free at the top, so who
//! spawns and frees a thousand tasks again and again pays for page faults or not by the luck of what lies above them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Settings that glibc reads at the start of a program, the same for all contestants in it.
const SETTINGS: [(&str, &str); 2] = [
    ("MALLOC_TRIM_THRESHOLD_", "4000000000"),
    ("MALLOC_TOP_PAD_", "67108864"),
];

/// Starts this program again with a heap that gives nothing back, unless it has one.
///
/// # Errors
/// The program cannot be started again.
pub fn steady_heap() -> io::Result<()> {
    if SETTINGS
        .iter()
        .all(|(name, _)| std::env::var_os(name).is_some())
    {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    Err(again
        .args(std::env::args_os().skip(1))
        .envs(SETTINGS)
        .exec())
}
