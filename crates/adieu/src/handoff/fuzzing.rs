//! What a process is given by the one before it or above it, for fuzz targets in `fuzz/`. Not in a normal build.

use super::manifest::HandoffManifest;

/// Reads a text as a hand-off. What is accepted must survive being written and read again.
///
/// # Panics
/// It does not survive.
pub fn handoff_payload(text: &str) {
    let Ok(manifest) = serde_json::from_str::<HandoffManifest>(text) else {
        return;
    };
    let written = serde_json::to_string(&manifest).expect("it can be written");
    let read: HandoffManifest = serde_json::from_str(&written).expect("what we write can be read");
    assert_eq!(read, manifest);
}

/// Reads bytes as a message about a connection. What is accepted must survive being written and read again.
///
/// # Panics
/// It does not survive.
pub fn moved_connection(bytes: &[u8]) {
    crate::net::check_moved_connection(bytes);
}

/// Reads a text as the values of `LISTEN_FDS` and, on a second line, `LISTEN_FDNAMES`.
///
/// # Panics
/// What is accepted breaks a bound, or what is refused has no reason that fits on a line.
pub fn listen_fds(text: &str) {
    crate::net::check_announced(text);
}
