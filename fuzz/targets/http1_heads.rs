//! The count of request heads, against httparse and the lengths that the heads declare.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let pieces = adieu_fuzz::pieces(bytes);
    let whole = pieces.concat();
    // A line that is longer than what is kept of it, cut in two, counts only as far as it is kept.
    if whole.split(|byte| *byte == b'\n').any(|line| line.len() > 250) {
        adieu::fuzzing::http1_heads(&pieces);
        return;
    }
    let counted = adieu::fuzzing::http1_heads(&[&whole]);
    assert_eq!(
        adieu::fuzzing::http1_heads(&pieces),
        counted,
        "the cuts change the count"
    );
    if let Some(expected) = parse(&whole) {
        assert_eq!(counted.0, expected, "httparse counts another number of heads");
    }
});

/// How many heads httparse finds; `None` for what hyper answers with an error.
fn parse(mut bytes: &[u8]) -> Option<u32> {
    let mut count = 0;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let end = match request.parse(bytes).ok()? {
            httparse::Status::Partial => return Some(count),
            httparse::Status::Complete(end) => end,
        };
        count += 1;
        let body = &bytes[end..];
        bytes = match length(&request)? {
            Length::Known(length) => body.get(length..)?,
            Length::Chunked => after_chunks(body)?,
        };
    }
}

enum Length {
    Known(usize),
    Chunked,
}

fn length(request: &httparse::Request<'_, '_>) -> Option<Length> {
    let mut length = None;
    let mut chunked = false;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let value = std::str::from_utf8(header.value).ok()?;
            // Two of them, or anything but digits, is an error.
            if length.is_some() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            length = Some(value.parse().ok()?);
        }
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                return None;
            }
            chunked = true;
        }
    }
    match (chunked, length) {
        (true, Some(_)) => None,
        // HTTP/1.0 has no chunks.
        (true, None) => (request.version == Some(1)).then_some(Length::Chunked),
        (false, length) => Some(Length::Known(length.unwrap_or(0))),
    }
}

/// What follows the last chunk and its trailers; `None` if it is not whole or not well formed.
fn after_chunks(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let httparse::Status::Complete((start, size)) = httparse::parse_chunk_size(bytes).ok()? else {
            return None;
        };
        bytes = &bytes[start..];
        if size == 0 {
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let httparse::Status::Complete((end, _)) = httparse::parse_headers(bytes, &mut headers).ok()? else {
                return None;
            };
            return Some(&bytes[end..]);
        }
        let rest = bytes.get(usize::try_from(size).ok()?..)?;
        bytes = rest.strip_prefix(b"\r\n")?;
    }
}
