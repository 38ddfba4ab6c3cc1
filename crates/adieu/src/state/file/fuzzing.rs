//! The file format, for a fuzz target in `fuzz/`. Not in a normal build.

use super::format;

/// Reads bytes as a file of state. What is accepted must survive being written and read again.
///
/// # Panics
/// It does not survive.
pub fn state_file(key: &str, bytes: &[u8]) {
    let Ok(record) = format::read(key, bytes) else {
        return;
    };
    let written = format::write(key, record.version, &record.entry).expect("it was JSON");
    let read = format::read(key, written.as_bytes()).expect("what we write can be read");
    assert_eq!(read.version, record.version);
    assert_eq!(read.entry.format, record.entry.format);
    assert_eq!(read.entry.value, record.entry.value);
}
