//! Where one WebSocket frame ends and the next begins, in the bytes of either side.
//!
//! To know when a close frame may be put in between, because control frames may stand between any two frames, but not
//! inside one; and what of a client's message is there already when its connection moves to the new process.

/// The opcode of a close frame.
const CLOSE: u8 = 8;

/// A server's close frame with this code.
pub(super) const fn close_frame(code: u16) -> [u8; 4] {
    let [high, low] = code.to_be_bytes();
    [0x88, 2, high, low]
}

#[derive(Debug)]
pub(super) enum WsCursor {
    /// Before the head of the 101 response: so many bytes of its beginning have been seen. The end of an answer
    /// before it may still have been on its way out.
    Before(u8),
    /// In that head: so many bytes of its end have been seen.
    Head(u8),
    /// In a frame's header: the bytes so far, at most ten.
    Header([u8; 10], u8),
    /// In a frame's payload: so many bytes to go.
    Payload(u64),
    /// A close frame has begun: whatever follows, nothing more may be said.
    Closed,
}

/// What the head of the response begins with.
const SWITCHING: &[u8] = b"HTTP/1.1 101";

impl Default for WsCursor {
    fn default() -> Self {
        Self::Before(0)
    }
}

impl WsCursor {
    /// Whether the next byte begins a frame.
    pub(super) const fn is_between_frames(&self) -> bool {
        matches!(self, Self::Header(_, 0))
    }

    /// Whether the handler has said goodbye in its own words.
    pub(super) const fn has_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Of a connection whose next byte begins a frame.
    #[cfg(feature = "websocket")]
    pub(super) const fn at_a_frame() -> Self {
        Self::Header([0; 10], 0)
    }

    pub(super) fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.advance_to_frame_end(bytes);
            bytes = &bytes[count..];
        }
    }

    /// Goes on to the end of a frame at most, and says how many bytes that were.
    pub(super) fn advance_to_frame_end(&mut self, all: &[u8]) -> usize {
        let mut bytes = all;
        while let [first, rest @ ..] = bytes {
            match self {
                Self::Closed => return all.len(),
                Self::Before(seen) => {
                    let expected = SWITCHING.get(usize::from(*seen));
                    *seen = if expected == Some(first) {
                        *seen + 1
                    } else {
                        u8::from(*first == SWITCHING[0])
                    };
                    if usize::from(*seen) == SWITCHING.len() {
                        *self = Self::Head(0);
                    }
                    bytes = rest;
                }
                Self::Head(seen) => {
                    *seen = match (*seen, first) {
                        (0 | 2, b'\r') | (1 | 3, b'\n') => *seen + 1,
                        (_, b'\r') => 1,
                        _ => 0,
                    };
                    if *seen == 4 {
                        *self = Self::Header([0; 10], 0);
                    }
                    bytes = rest;
                }
                Self::Header(_, 0) if first & 0x0f == CLOSE => *self = Self::Closed,
                Self::Header(header, count) => {
                    header[usize::from(*count)] = *first;
                    *count += 1;
                    if let Some(length) = payload_length(&header[..usize::from(*count)]) {
                        *self = if length == 0 {
                            Self::Header([0; 10], 0)
                        } else {
                            Self::Payload(length)
                        };
                    }
                    bytes = rest;
                }
                Self::Payload(left) => {
                    let taken =
                        usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    *left -= taken as u64;
                    if *left == 0 {
                        *self = Self::Header([0; 10], 0);
                    }
                    bytes = &bytes[taken..];
                }
            }
            if self.is_between_frames() {
                break;
            }
        }
        all.len() - bytes.len()
    }
}

/// The length of what follows the header, once that is whole: the mask of a client's frame, and the payload.
fn payload_length(header: &[u8]) -> Option<u64> {
    let [_, length, extended @ ..] = header else {
        return None;
    };
    let mask = if length & 0x80 == 0 { 0 } else { 4 };
    let payload = match length & 0x7f {
        126 => extended
            .try_into()
            .ok()
            .map(u16::from_be_bytes)
            .map(u64::from),
        127 => extended.try_into().ok().map(u64::from_be_bytes),
        short => Some(u64::from(short)),
    };
    payload.map(|payload| payload.saturating_add(mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![0x82];
        match payload {
            0..126 => frame.push(u8::try_from(payload).unwrap()),
            126..65_536 => {
                frame.push(126);
                frame.extend(u16::try_from(payload).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(127);
                frame.extend((payload as u64).to_be_bytes());
            }
        }
        frame.extend(std::iter::repeat_n(0x88, payload));
        frame
    }

    proptest! {
        #[test]
        fn knows_the_end_of_every_frame_however_it_is_cut(
            payloads in prop::collection::vec(prop_oneof![0_usize..200, 60_000_usize..70_000], 1..6),
            cuts in prop::collection::vec(1_usize..5_000, 1..50),
        ) {
            let mut cursor = WsCursor::default();
            cursor.advance(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n");
            let mut cuts = cuts.into_iter().cycle();
            for payload in payloads {
                prop_assert!(cursor.is_between_frames());
                let frame = frame(payload);
                let mut rest = &frame[..];
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                    cursor.advance(piece);
                    rest = after;
                    prop_assert_eq!(cursor.is_between_frames(), rest.is_empty());
                }
            }
        }
    }
}
