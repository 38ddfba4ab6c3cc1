//! Where WebSocket frames of a server end, against the header parser of tungstenite.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tungstenite::protocol::frame::FrameHeader;

const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n";

fuzz_target!(|bytes: &[u8]| {
    let pieces = adieu_fuzz::pieces(bytes);
    let mut writes = vec![ANSWER];
    writes.extend(&pieces);
    let found = adieu::fuzzing::websocket_frames(&writes);
    if let Some(expected) = walk(&pieces.concat()) {
        assert_eq!(found, expected);
    }
});

/// Whether the frames end between two, and whether one of them closes; `None` for what no server writes.
fn walk(bytes: &[u8]) -> Option<(bool, bool)> {
    let mut cursor = Cursor::new(bytes);
    loop {
        let at = cursor.position() as usize;
        if at == bytes.len() {
            return Some((true, false));
        }
        // The first byte of a close frame is enough.
        if bytes[at] & 0x0f == 8 {
            return Some((false, true));
        }
        // A server masks nothing.
        if bytes.get(at + 1).is_some_and(|length| length & 0x80 != 0) {
            return None;
        }
        let Some((_, length)) = FrameHeader::parse(&mut cursor).ok()? else {
            return Some((false, false));
        };
        let end = cursor.position().checked_add(length)?;
        if end > bytes.len() as u64 {
            return Some((false, false));
        }
        cursor.set_position(end);
    }
}
