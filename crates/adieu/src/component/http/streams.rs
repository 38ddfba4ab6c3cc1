//! Which streams an HTTP/2 client has opened, and where one frame of ours ends and the next begins: what it takes to
//! draw the line for a client that is cut before the protocol could draw it.
//!
//! Without that line a client cannot know whether a request that crossed the end of the connection was handled; with
//! it, every stream above was not, and may be sent again.

const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// What a client begins with.
const PREFACE: u32 = 24;
/// Every frame's.
const HEADER: usize = 9;
/// A GOAWAY that refuses nothing: the last stream is the last one there can be.
pub(super) const ANNOUNCEMENT: &[u8; 17] = &[
    0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0,
];

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Frames {
    /// Bytes to go before the next header.
    skip: u32,
    header: [u8; HEADER],
    count: usize,
}

impl Frames {
    const fn after(skip: u32) -> Self {
        Self {
            skip,
            header: [0; HEADER],
            count: 0,
        }
    }

    const fn is_between(&self) -> bool {
        self.skip == 0 && self.count == 0
    }

    /// Whether the frame under way moves a request or an answer on. A client that has stalled may well go on to ping.
    const fn is_work(&self) -> bool {
        !matches!(self.header[3], PRIORITY | SETTINGS | PING | GOAWAY)
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
                continue;
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
            }
        }
        work
    }
}

/// What has passed over an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Streams {
    client: Frames,
    server: Frames,
    /// The last stream that the client has opened.
    last: u32,
    goaways: u32,
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self {
            client: Frames::after(PREFACE),
            server: Frames::after(0),
            last: 0,
            goaways: 0,
        }
    }

    /// Whether any of it was work, and not only talk about the connection.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        let last = &mut self.last;
        self.client.advance(bytes, |kind, stream| {
            if kind == HEADERS {
                *last = stream.max(*last);
            }
        })
    }

    /// The same of what we write.
    pub(super) fn written(&mut self, bytes: &[u8]) -> bool {
        let goaways = &mut self.goaways;
        self.server
            .advance(bytes, |kind, _| *goaways += u32::from(kind == GOAWAY))
    }

    /// Where the protocol's own announcement begins in what it wants to write, if it does.
    pub(super) fn announcement_in(&self, mut bytes: &[u8]) -> Option<usize> {
        let mut frames = self.server.clone();
        let mut at = 0;
        loop {
            if frames.is_between() && bytes.starts_with(ANNOUNCEMENT) {
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
    pub(super) fn line(&self) -> Option<[u8; 17]> {
        // The protocol's first one refuses nothing, its second one draws the line.
        if self.goaways > 1 || !self.server.is_between() {
            return None;
        }
        let mut frame = *ANNOUNCEMENT;
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
                bytes.extend(ANNOUNCEMENT);
            }
            let at = bytes.len();
            let mut streams = Streams::new();
            let written = written.min(at);
            streams.written(&bytes[..written]);
            prop_assert_eq!(streams.announcement_in(&bytes[written..]), None);
            bytes.extend(ANNOUNCEMENT);
            prop_assert_eq!(streams.announcement_in(&bytes[written..]), Some(at - written));
            bytes.extend(frame(6, 0, 8));
            prop_assert_eq!(streams.announcement_in(&bytes[written..]), Some(at - written));
        }

        #[test]
        fn knows_the_last_stream_and_the_end_of_every_frame_however_they_are_cut(
            frames in prop::collection::vec((0_u8..10, 0_u32..100, prop_oneof![0_usize..20, 16_000_usize..17_000]), 0..8),
            cuts in prop::collection::vec(1_usize..3_000, 1..50),
        ) {
            let mut streams = Streams::new();
            in_pieces(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &cuts, |piece| { streams.read(piece); });
            let (mut last, mut goaways) = (0, 0);
            for (kind, stream, payload) in frames {
                let frame = frame(kind, stream, payload);
                in_pieces(&frame, &cuts, |piece| { streams.read(piece); });
                let mut count = 0;
                in_pieces(&frame, &cuts, |piece| {
                    streams.written(piece);
                    count += piece.len();
                    assert_eq!(streams.server.is_between(), count == frame.len());
                });
                if kind == HEADERS {
                    last = stream.max(last);
                }
                let is_talk = matches!(kind, PRIORITY | SETTINGS | PING | GOAWAY);
                prop_assert_eq!(streams.read(&frame), !is_talk, "of kind {}", kind);
                goaways += u32::from(kind == GOAWAY);
                let line = streams.line();
                prop_assert_eq!(line.is_some(), goaways < 2);
                if let Some(line) = line {
                    prop_assert_eq!(&line[9..13], last.to_be_bytes());
                }
            }
        }
    }
}
