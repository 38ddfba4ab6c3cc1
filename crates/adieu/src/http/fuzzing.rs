//! The scanners of bytes from the network, for the fuzz targets in `fuzz/`. Not in a normal build.

use super::h1_scanner::HeadScanner;
use super::h2_frames::FrameTracker;
use super::ws_frames::WsCursor;

/// How many request heads end in these reads, and whether the last read ends inside a body.
pub fn http1_heads(reads: &[&[u8]]) -> (u32, bool) {
    let mut heads = HeadScanner::default();
    let ended = reads.iter().map(|read| heads.heads_ended_in(read)).sum();
    (ended, heads.is_in_body())
}

/// Whether a server's writes end between two WebSocket frames, and whether a close frame has begun.
pub fn websocket_frames(writes: &[&[u8]]) -> (bool, bool) {
    let mut cursor = WsCursor::default();
    for write in writes {
        cursor.advance(write);
    }
    (cursor.is_between_frames(), cursor.has_closed())
}

/// After a client's reads (with its preface) and a server's writes: the last stream that a GOAWAY would name, if one
/// can be written at this point.
pub fn http2_frames(reads: &[&[u8]], writes: &[&[u8]]) -> Option<u32> {
    let mut frames = FrameTracker::new();
    for read in reads {
        frames.read(read);
    }
    for write in writes {
        frames.written(write);
    }
    let frame = frames.final_goaway()?;
    Some(u32::from_be_bytes([
        frame[9], frame[10], frame[11], frame[12],
    ]))
}
