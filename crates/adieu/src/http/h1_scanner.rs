//! How many heads of requests have ended in what an HTTP/1 client has sent, however it was cut on the way.
//!
//! A body may look like anything, also like a head, so its length is read from the head before it. What makes no sense is
//! the protocol's to refuse; here it only must not count forever.

use memchr::memchr;

/// Where the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Head,
    /// So much of a body is still to come.
    Body(u64),
    /// The line with the size of a chunk.
    Size,
    /// So much of a chunk is still to come, with the end of its line.
    Chunk(u64),
    /// Lines after the last chunk.
    Trailers,
}

/// What is known so far of the head that is being read.
#[derive(Clone, Copy, Debug, Default)]
struct PartialHead {
    /// Its first line is there; blank ones before it do not count.
    is_begun: bool,
    length: u64,
    is_chunked: bool,
}

#[derive(Debug, Default)]
pub(super) struct HeadScanner {
    at: At,
    head: PartialHead,
    /// The beginning of a line that was cut, as far as it matters.
    kept: Vec<u8>,
}

/// More of a line than tells how long a body is.
const ENOUGH: usize = 256;

impl HeadScanner {
    /// How many have ended in the next bytes.
    pub(super) fn heads_ended_in(&mut self, mut bytes: &[u8]) -> u32 {
        let mut count = 0;
        while !bytes.is_empty() {
            match &mut self.at {
                At::Body(left) | At::Chunk(left) => {
                    let taken =
                        usize::try_from(*left).map_or(bytes.len(), |it| it.min(bytes.len()));
                    *left -= taken as u64;
                    bytes = &bytes[taken..];
                    self.at = match self.at {
                        At::Body(0) => At::Head,
                        At::Chunk(0) => At::Size,
                        more => more,
                    };
                }
                At::Head | At::Size | At::Trailers => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.keep(bytes);
                        break;
                    };
                    let line = &bytes[..end];
                    bytes = &bytes[end + 1..];
                    if self.kept.is_empty() {
                        count += self.line(line);
                    } else {
                        self.keep(line);
                        let kept = std::mem::take(&mut self.kept);
                        count += self.line(&kept);
                    }
                }
            }
        }
        count
    }

    /// Whether what comes next belongs to a body.
    pub(super) fn is_in_body(&self) -> bool {
        self.at != At::Head
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = ENOUGH - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// A line without its line feed. Whether a head has ended with it.
    fn line(&mut self, line: &[u8]) -> u32 {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.at {
            At::Head if !line.is_empty() => self.head.line(line),
            At::Head if self.head.is_begun => {
                self.at = match std::mem::take(&mut self.head) {
                    PartialHead {
                        is_chunked: true, ..
                    } => At::Size,
                    PartialHead { length: 0, .. } => At::Head,
                    PartialHead { length, .. } => At::Body(length),
                };
                return 1;
            }
            At::Size => {
                self.at = match size(line) {
                    Some(0) => At::Trailers,
                    Some(size) => At::Chunk(size.saturating_add(2)),
                    None => At::Head,
                }
            }
            At::Trailers if line.is_empty() => self.at = At::Head,
            _ => {}
        }
        0
    }
}

impl PartialHead {
    fn line(&mut self, line: &[u8]) {
        if !std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        // Most begin with something else.
        let (b'c' | b'C' | b't' | b'T') = line[0] else {
            return;
        };
        if let Some(value) = value(line, b"content-length:") {
            self.length = value.parse().unwrap_or(0);
        } else if let Some(value) = value(line, b"transfer-encoding:") {
            self.is_chunked = value.to_ascii_lowercase().ends_with("chunked");
        }
    }
}

fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (begun, value) = line.split_at_checked(name.len())?;
    if !begun.eq_ignore_ascii_case(name) {
        return None;
    }
    str::from_utf8(value).ok().map(str::trim)
}

/// The size of a chunk; what may stand behind it says nothing of it.
fn size(line: &[u8]) -> Option<u64> {
    let line = str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A request, and where its head ends in it.
    fn request() -> impl Strategy<Value = (Vec<u8>, usize)> {
        let line = "[A-Za-z]{1,20}: [ -~]{0,300}";
        let body = prop::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), any::<u8>()],
            0..40,
        );
        let form = prop_oneof![
            Just("none"),
            Just("Content-Length"),
            Just("content-length"),
            Just("chunked")
        ];
        let head = (
            "(\r\n)?(GET|CONNECT|TRACE) / HTTP/1.1",
            prop::collection::vec(line, 0..4),
            0_usize..4,
        );
        (head, form, body, 1_usize..9, any::<bool>()).prop_map(
            |((first, mut lines, place), form, body, chunk, trailer)| {
                let place = place.min(lines.len());
                match form {
                    "none" => {}
                    "chunked" => lines.insert(place, "Transfer-Encoding: gzip, Chunked".to_owned()),
                    name => lines.insert(place, format!("{name}:  {} ", body.len())),
                }
                lines.insert(0, first);
                let mut text = format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes();
                let end = text.len();
                match form {
                    "none" => {}
                    "chunked" => {
                        for piece in body.chunks(chunk) {
                            text.extend(format!("{:X};a=b\r\n", piece.len()).bytes());
                            text.extend(piece);
                            text.extend(b"\r\n");
                        }
                        text.extend(b"0\r\n");
                        if trailer {
                            text.extend(b"Checked: no\r\n");
                        }
                        text.extend(b"\r\n");
                    }
                    _ => text.extend(body),
                }
                (text, end)
            },
        )
    }

    proptest! {
        /// After every piece, so many have ended as have.
        #[test]
        fn every_head_counts_once_and_no_body_does(
            requests in prop::collection::vec(request(), 0..6),
            cuts in prop::collection::vec(1_usize..40, 1..20),
        ) {
            let mut text = Vec::new();
            let mut spans = Vec::new();
            for (request, end) in &requests {
                spans.push((text.len() + end, text.len() + request.len()));
                text.extend(request);
            }
            let (mut heads, mut count, mut seen) = (HeadScanner::default(), 0, 0);
            for cut in cuts.into_iter().cycle().take_while(|_| !text.is_empty()) {
                let next = (seen + cut).min(text.len());
                count += heads.heads_ended_in(&text[seen..next]) as usize;
                seen = next;
                let ended = spans.iter().filter(|(head, _)| *head <= seen).count();
                prop_assert_eq!(count, ended, "after {} bytes", seen);
                let in_body = spans.iter().any(|(head, body)| (*head..*body).contains(&seen));
                prop_assert_eq!(heads.is_in_body(), in_body, "after {} bytes", seen);
                if seen == text.len() {
                    break;
                }
            }
        }

        #[test]
        fn nonsense_is_no_reason_to_panic(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..20)) {
            let mut heads = HeadScanner::default();
            let all: u32 = pieces.iter().map(|piece| heads.heads_ended_in(piece)).sum();
            prop_assert!(all as usize <= pieces.concat().len());
        }
    }
}
