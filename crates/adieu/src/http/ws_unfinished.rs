//! What a client has sent of a WebSocket message that its handler has not got whole.
//!
//! tungstenite keeps halves of messages to itself. It is given one frame at a time, and what it has been given of a message
//! that is not whole is kept here too: these bytes go to the new process with the connection.

use super::ws_frames::WsCursor;

/// So much of a message that is not whole is kept.
const MAX_KEPT: usize = 64 * 1_024;
/// The bit of the last frame of a message.
const FIN: u8 = 0x80;
/// The bit of the opcodes of control frames, which may stand between the frames of a message.
const CONTROL: u8 = 0x08;

pub(super) struct Unfinished {
    cursor: WsCursor,
    bytes: Vec<u8>,
    /// Where the present frame begins in `bytes`, and its first byte.
    frame_at: usize,
    first: u8,
    /// There is more of it than is kept.
    is_too_large: bool,
}

impl Unfinished {
    pub(super) const fn new() -> Self {
        Self {
            cursor: WsCursor::at_a_frame(),
            bytes: Vec::new(),
            frame_at: 0,
            first: 0,
            is_too_large: false,
        }
    }

    /// Takes bytes of the client up to the end of a frame, and says how many.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let Some(first) = bytes.first() else {
            return 0;
        };
        if self.cursor.is_between_frames() {
            (self.frame_at, self.first) = (self.bytes.len(), *first);
        }
        let count = self.cursor.advance_to_frame_end(bytes);
        self.is_too_large |= self.bytes.len() + count > MAX_KEPT;
        if self.is_too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(&bytes[..count]);
        }
        if self.cursor.is_between_frames() {
            if self.first & CONTROL != 0 {
                self.bytes.truncate(self.frame_at);
            } else if self.first & FIN != 0 {
                // The handler has it whole. The room is given back: most of the time there is nothing to keep.
                self.bytes = Vec::new();
                self.is_too_large = false;
            }
        }
        count
    }

    /// What there is of a message; `None` if it is not kept, or the client has sent its close frame.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_large && !self.has_closed()).then_some(&self.bytes)
    }

    /// Whether the client has sent its close frame, or has begun to.
    pub(super) const fn has_closed(&self) -> bool {
        self.cursor.has_closed()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of a client, with its mask.
    fn frame(first: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match payload {
            0..126 => frame.push(0x80 | u8::try_from(payload).expect("small")),
            126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(payload).expect("small").to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((payload as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend(std::iter::repeat_n(0x88, payload));
        frame
    }

    /// Everything, in as many steps as it takes.
    fn take_all(unfinished: &mut Unfinished, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = unfinished.take(bytes);
            assert!(count > 0, "it goes on");
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn control_frames_are_handled_and_the_halves_around_them_are_not() {
        let mut unfinished = Unfinished::new();
        let (begin, more) = (frame(0x01, 5), frame(0x00, 200));
        let (ping, end) = (frame(0x89, 3), frame(0x80, 7));
        take_all(&mut unfinished, &[&begin[..], &ping, &more].concat());
        assert_eq!(unfinished.bytes(), Some(&[&begin[..], &more].concat()[..]));
        take_all(&mut unfinished, &ping[..4]);
        let half = [&begin[..], &more, &ping[..4]].concat();
        assert_eq!(unfinished.bytes(), Some(&half[..]));
        take_all(&mut unfinished, &ping[4..]);
        take_all(&mut unfinished, &end);
        assert_eq!(unfinished.bytes(), Some(&b""[..]));
    }

    #[test]
    fn a_frame_is_taken_alone() {
        let mut unfinished = Unfinished::new();
        let (one, two) = (frame(0x82, 9), frame(0x82, 0));
        assert_eq!(unfinished.take(&[&one[..], &two].concat()), one.len());
        assert_eq!(unfinished.take(&[&two[..], &one].concat()), two.len());
    }

    #[test]
    fn a_large_message_is_not_kept_and_the_next_one_is() {
        let mut unfinished = Unfinished::new();
        let large = frame(0x82, MAX_KEPT);
        take_all(&mut unfinished, &large[..large.len() - 1]);
        assert_eq!(unfinished.bytes(), None);
        take_all(&mut unfinished, &large[large.len() - 1..]);
        let next = frame(0x82, 100);
        take_all(&mut unfinished, &next[..50]);
        assert_eq!(unfinished.bytes(), Some(&next[..50]));
    }

    #[test]
    fn after_a_close_frame_there_is_nothing_to_keep() {
        let mut unfinished = Unfinished::new();
        take_all(&mut unfinished, &frame(0x88, 2)[..3]);
        assert!(unfinished.has_closed());
        assert_eq!(unfinished.bytes(), None);
    }

    proptest! {
        /// Cut anywhere: what is kept, and then the rest, is the message again.
        #[test]
        fn what_is_kept_is_what_has_no_end(
            payloads in prop::collection::vec(0_usize..300, 1..5),
            cut in any::<prop::sample::Index>(),
            steps in prop::collection::vec(1_usize..40, 1..20),
        ) {
            let last = payloads.len() - 1;
            let mut message = Vec::new();
            for (index, payload) in payloads.into_iter().enumerate() {
                let opcode = if index == 0 { 2 } else { 0 };
                message.extend(frame(if index == last { FIN | opcode } else { opcode }, payload));
            }
            let cut = cut.index(message.len());
            let mut unfinished = Unfinished::new();
            take_all(&mut unfinished, &message);
            let mut steps = steps.into_iter().cycle();
            let mut rest = &message[..cut];
            while !rest.is_empty() {
                let step = steps.next().unwrap_or(1).min(rest.len());
                take_all(&mut unfinished, &rest[..step]);
                rest = &rest[step..];
            }
            prop_assert_eq!(unfinished.bytes(), Some(&message[..cut]));
        }
    }
}
