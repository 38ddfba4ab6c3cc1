//! What the next process is given, for fuzz targets in `fuzz/`. Not in a normal build.

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
