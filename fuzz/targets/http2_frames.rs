//! Where HTTP/2 frames begin and which stream was the last, against the header parser of h2.
#![no_main]

use h2::frame::{Head, Kind};
use libfuzzer_sys::fuzz_target;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fuzz_target!(|bytes: &[u8]| {
    let Some((at, bytes)) = bytes.split_first() else {
        return;
    };
    let (client, server) = bytes.split_at(bytes.len() * usize::from(*at) / 256);
    let reads = adieu_fuzz::pieces(client);
    let writes = adieu_fuzz::pieces(server);

    let mut last = 0;
    walk(&reads.concat(), |head| {
        if head.kind() == Kind::Headers {
            last = last.max(u32::from(head.stream_id()));
        }
    });
    let mut goaways = 0;
    let is_between = walk(&writes.concat(), |head| goaways += u32::from(head.kind() == Kind::GoAway));
    let expected = (goaways <= 1 && is_between).then_some(last);

    let mut all = vec![PREFACE];
    all.extend(reads);
    assert_eq!(adieu::fuzzing::http2_frames(&all, &writes), expected);
});

/// Each whole header in turn; whether the bytes end between two frames.
fn walk(mut bytes: &[u8], mut found: impl FnMut(Head)) -> bool {
    while bytes.len() >= 9 {
        found(Head::parse(bytes));
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        match bytes.get(9 + length..) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}
