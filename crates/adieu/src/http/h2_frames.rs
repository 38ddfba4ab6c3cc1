//! Which streams an HTTP/2 client has opened, and where one frame of ours ends and the next begins: what it takes to
//! draw the line for a client that is cut before the protocol could draw it.
//!
//! Without that line a client cannot know whether a request that crossed the end of the connection was handled; with
//! it, every stream above was not, and may be sent again.

const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// The flag of a frame with which a block of header fields ends.
pub(super) const END_HEADERS: u8 = 4;
/// The flag of a frame with which a stream ends.
pub(super) const END_STREAM: u8 = 1;
/// What a client begins with.
const PREFACE: u32 = 24;
/// Every frame's.
const HEADER: usize = 9;
/// A GOAWAY that refuses nothing: the last stream is the last one there can be.
pub(super) const GOAWAY_MAX: &[u8; 17] = &[
    0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];

/// One direction of a connection.
#[derive(Clone, Debug)]
struct FrameReader {
    /// Bytes to go before the next header.
    skip: u32,
    header: [u8; HEADER],
    count: usize,
    /// A block of header fields has begun, in one frame or several, and has not ended.
    in_block: bool,
    /// How many units have begun: frames, but a block of header fields is one.
    units: u32,
}

impl FrameReader {
    const fn after(skip: u32) -> Self {
        Self {
            skip,
            header: [0; HEADER],
            count: 0,
            in_block: false,
            units: 1,
        }
    }

    const fn is_between(&self) -> bool {
        self.skip == 0 && self.count == 0
    }

    /// The number of the unit that has begun and has not ended.
    const fn unfinished(&self) -> Option<u32> {
        if self.is_between() && !self.in_block {
            None
        } else {
            Some(self.units)
        }
    }

    /// Whether the bytes of the frame that is being read move a request or an answer on. A client that has stalled may well go on
    /// to ping.
    const fn is_work(&self) -> bool {
        matches!(self.header[3], DATA | RST_STREAM | WINDOW_UPDATE)
    }

    /// At the end of a frame: whether a block of header fields has ended with it. Its bytes are no work before: a client
    /// may send them one by one.
    const fn ends_block(&mut self) -> bool {
        let is_block = matches!(self.header[3], HEADERS | CONTINUATION);
        let ends = is_block && self.header[4] & END_HEADERS != 0;
        if is_block {
            self.in_block = !ends;
        }
        ends
    }

    /// Tells of every frame that begins: its kind and its stream. Whether any of the bytes were work.
    fn advance(&mut self, mut bytes: &[u8], mut begins: impl FnMut(u8, u32)) -> bool {
        let mut work = false;
        while !bytes.is_empty() {
            if self.skip > 0 {
                work |= self.is_work();
                let passed =
                    usize::try_from(self.skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
                self.skip -= u32::try_from(passed).unwrap_or(self.skip);
                bytes = &bytes[passed..];
                work |= self.skip == 0 && self.ends_block();
                continue;
            }
            if self.count == 0 && !self.in_block {
                self.units = self.units.wrapping_add(1);
            }
            let taken = (HEADER - self.count).min(bytes.len());
            self.header[self.count..self.count + taken].copy_from_slice(&bytes[..taken]);
            self.count += taken;
            bytes = &bytes[taken..];
            if self.count == HEADER {
                let [a, b, c, kind, _, d, e, f, g] = self.header;
                begins(kind, u32::from_be_bytes([d & 0x7f, e, f, g]));
                work |= self.is_work();
                self.skip = u32::from_be_bytes([0, a, b, c]);
                self.count = 0;
                self.in_block |= matches!(kind, HEADERS | CONTINUATION);
                work |= self.skip == 0 && self.ends_block();
            }
        }
        work
    }
}

/// What has passed over an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct FrameTracker {
    client: FrameReader,
    server: FrameReader,
    /// The last stream that the client has opened.
    last: u32,
    /// Streams that the client has opened, and whose response has not begun. No more than it may have open.
    unanswered: Vec<u32>,
    goaways: u32,
}

impl FrameTracker {
    pub(super) const fn new() -> Self {
        Self {
            client: FrameReader::after(PREFACE),
            server: FrameReader::after(0),
            last: 0,
            unanswered: Vec::new(),
            goaways: 0,
        }
    }

    /// Whether any of it was work, and not only talk about the connection.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        let (last, unanswered) = (&mut self.last, &mut self.unanswered);
        self.client.advance(bytes, |kind, stream| match kind {
            // Later ones on a stream are trailers.
            HEADERS if stream > *last => {
                *last = stream;
                unanswered.push(stream);
            }
            RST_STREAM => unanswered.retain(|open| *open != stream),
            _ => {}
        })
    }

    /// What the client has begun to send and has not ended: its number. Without an end it is half a request head.
    pub(super) const fn unfinished(&self) -> Option<u32> {
        self.client.unfinished()
    }

    /// Follows the frames that this server writes; whether they move a request or a response on.
    pub(super) fn written(&mut self, bytes: &[u8]) -> bool {
        let (goaways, unanswered) = (&mut self.goaways, &mut self.unanswered);
        self.server.advance(bytes, |kind, stream| match kind {
            GOAWAY => *goaways += 1,
            HEADERS | RST_STREAM => unanswered.retain(|open| *open != stream),
            _ => {}
        })
    }

    /// The streams whose response has not begun; none if no frame can be put in here.
    pub(super) fn unanswered(&self) -> &[u32] {
        match self.server.unfinished() {
            None => &self.unanswered,
            Some(_) => &[],
        }
    }

    /// Where the protocol's own announcement begins in what it wants to write, if it does.
    pub(super) fn goaway_max_in(&self, mut bytes: &[u8]) -> Option<usize> {
        let mut frames = self.server.clone();
        let mut at = 0;
        loop {
            if frames.is_between() && bytes.starts_with(GOAWAY_MAX) {
                return Some(at);
            }
            // To the end of the frame, or of its header, whose length is then known.
            let most = usize::try_from(frames.skip).unwrap_or(usize::MAX);
            let step = if most > 0 {
                most
            } else {
                HEADER - frames.count
            };
            let (passed, rest) = bytes.split_at_checked(step)?;
            frames.advance(passed, |_, _| {});
            (at, bytes) = (at + step, rest);
        }
    }

    /// Whether a frame of our own can be put in here.
    pub(super) const fn is_between(&self) -> bool {
        self.server.is_between()
    }

    /// The GOAWAY that draws the line, without an error; `None` if it is drawn, or would stand inside of a frame.
    pub(super) fn final_goaway(&self) -> Option<[u8; 17]> {
        // The protocol's first one refuses nothing, its second one draws the line.
        if self.goaways > 1 || !self.server.is_between() {
            return None;
        }
        let mut frame = *GOAWAY_MAX;
        frame[9..13].copy_from_slice(&self.last.to_be_bytes());
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, 0xff];
        // The first bit is reserved, and means nothing.
        frame.extend((stream | 0x8000_0000).to_be_bytes());
        frame.extend(std::iter::repeat_n(GOAWAY, payload));
        frame
    }

    fn in_pieces(bytes: &[u8], cuts: &[usize], mut take: impl FnMut(&[u8])) {
        let mut cuts = cuts.iter().copied().cycle();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            take(piece);
            rest = after;
        }
    }

    proptest! {
        #[test]
        fn finds_the_announcement_between_frames_and_nowhere_else(
            before in prop::collection::vec(0_usize..40, 0..6),
            inside in any::<bool>(),
            written in 0_usize..300,
        ) {
            // What looks like one inside of another frame is none.
            let mut bytes: Vec<u8> = before.iter().flat_map(|payload| frame(0, 1, *payload)).collect();
            if inside {
                bytes.extend(frame(0, 1, 0));
                let start = bytes.len() - HEADER;
                bytes[start + 2] = 17;
                bytes.extend(GOAWAY_MAX);
            }
            let at = bytes.len();
            let mut frames = FrameTracker::new();
            let written = written.min(at);
            frames.written(&bytes[..written]);
            prop_assert_eq!(frames.goaway_max_in(&bytes[written..]), None);
            bytes.extend(GOAWAY_MAX);
            prop_assert_eq!(frames.goaway_max_in(&bytes[written..]), Some(at - written));
            bytes.extend(frame(6, 0, 8));
            prop_assert_eq!(frames.goaway_max_in(&bytes[written..]), Some(at - written));
        }

        #[test]
        fn knows_the_last_stream_and_the_end_of_every_frame_however_they_are_cut(
            frames in prop::collection::vec((0_u8..10, 0_u32..100, prop_oneof![0_usize..20, 16_000_usize..17_000]), 0..8),
            cuts in prop::collection::vec(1_usize..3_000, 1..50),
        ) {
            let mut tracker = FrameTracker::new();
            in_pieces(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &cuts, |piece| { tracker.read(piece); });
            let (mut last, mut goaways) = (0, 0);
            for (kind, stream, payload) in frames {
                let frame = frame(kind, stream, payload);
                in_pieces(&frame, &cuts, |piece| { tracker.read(piece); });
                let mut count = 0;
                in_pieces(&frame, &cuts, |piece| {
                    tracker.written(piece);
                    count += piece.len();
                    assert_eq!(tracker.server.is_between(), count == frame.len());
                });
                if kind == HEADERS {
                    last = stream.max(last);
                }
                let is_work = matches!(kind, DATA | HEADERS | RST_STREAM | WINDOW_UPDATE | CONTINUATION);
                prop_assert_eq!(tracker.read(&frame), is_work, "of kind {}", kind);
                goaways += u32::from(kind == GOAWAY);
                let line = tracker.final_goaway();
                prop_assert_eq!(line.is_some(), goaways < 2);
                if let Some(line) = line {
                    prop_assert_eq!(&line[9..13], last.to_be_bytes());
                }
            }
        }
    }

    /// A block of header fields, in so many frames of so many bytes.
    fn block(frames: usize, payload: usize) -> Vec<u8> {
        let mut block = Vec::new();
        for number in 0..frames {
            let kind = if number == 0 { HEADERS } else { CONTINUATION };
            let mut frame = frame(kind, 1, payload);
            frame[4] = if number + 1 == frames { END_HEADERS } else { 0 };
            block.extend(frame);
        }
        block
    }

    /// However slowly it comes.
    #[test]
    fn a_block_of_header_fields_is_one_unit_and_no_work_before_its_end() {
        let mut frames = FrameTracker::new();
        frames.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        for bytes in [block(1, 0), block(1, 9), block(3, 5), block(2, 0)] {
            assert_eq!(frames.unfinished(), None);
            let (last, before) = bytes.split_last().expect("it has bytes");
            let mut units: Vec<_> = before
                .iter()
                .map(|byte| {
                    assert!(!frames.read(&[*byte]), "before its end");
                    frames.unfinished().expect("it has begun")
                })
                .collect();
            units.dedup();
            assert_eq!(units.len(), 1, "{units:?}");
            assert!(frames.read(&[*last]), "its end");
        }
        // Two frames without an end, sent one after the other, are two.
        let ping = frame(6, 0, 8);
        frames.read(&ping[..3]);
        let first = frames.unfinished();
        frames.read(&[&ping[3..], &ping[..1]].concat());
        assert_ne!(frames.unfinished(), first);
    }
}
