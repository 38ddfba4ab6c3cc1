//! What the client of a request hears that is cut at the end of the drain, before its response began.
//!
//! Written by the connection itself when it is dropped: by then hyper and the handler are gone.

use super::h2_frames::{END_HEADERS, END_STREAM, HEADERS};

/// After this many seconds another instance is there.
pub(super) const HTTP1: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// `:status: 503` and `retry-after: 1`, as HPACK without indexing: the table of the connection stays as it is.
const HTTP2: &[u8] = b"\x08\x03503\x0f\x26\x011";
/// `:status: 200`, `content-type: application/grpc`, `grpc-status: 14` and a message: a response of trailers alone.
const GRPC: &[u8] = b"\x88\x0f\x10\x10application/grpc\x00\x0bgrpc-status\x0214\
    \x00\x0cgrpc-message\x1bthe server is shutting down";

/// The responses to requests on these streams.
pub(super) fn http2(streams: &[u32], is_grpc: bool) -> Vec<u8> {
    let fields = if is_grpc { GRPC } else { HTTP2 };
    let length = u8::try_from(fields.len()).unwrap_or_default();
    let mut frames = Vec::new();
    for stream in streams {
        frames.extend([0, 0, length, HEADERS, END_STREAM | END_HEADERS]);
        frames.extend(stream.to_be_bytes());
        frames.extend(fields);
    }
    frames
}
