//! HTTP/2, frame by frame, as well or as badly behaved as a test wants it.

use crate::client::{Client, Over};
use crate::live::Live;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
/// What the first of two GOAWAYs says: nothing is refused yet.
pub(crate) const NO_LIMIT: u32 = 0x7fff_ffff;

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The last stream that a GOAWAY lets pass.
    pub(crate) fn last_stream(&self) -> Option<u32> {
        let bytes = self.payload.get(..4).filter(|_| self.kind == GOAWAY)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    pub(crate) const fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// A connection on which the settings are exchanged.
pub(crate) struct H2 {
    pub(crate) client: Client,
    /// Whether it answers the server's PING.
    pub(crate) polite: bool,
    /// GOAWAYs seen: their last streams.
    pub(crate) goaways: Vec<u32>,
}

impl H2 {
    pub(crate) fn connect(live: &Live, over: Over) -> Self {
        Self::with(live, over, &[])
    }

    pub(crate) fn with(live: &Live, over: Over, settings: &[(u16, u32)]) -> Self {
        let mut client = live.connect(over);
        client.send(PREFACE);
        let mut h2 = Self {
            client,
            polite: true,
            goaways: Vec::new(),
        };
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(key, value)| [&key.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        h2.frame(SETTINGS, 0, 0, &settings);
        // The server has taken our settings: from here on it is known to speak HTTP/2.
        h2.expect("the acknowledgement of our settings", |frame| {
            frame.kind == SETTINGS && frame.flags == ACK
        });
        h2
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame");
        let mut frame = length.to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.client.send(frame);
    }

    /// Opens a stream; `whole` if no body follows.
    pub(crate) fn ask(&mut self, stream: u32, path: &str, whole: bool) {
        // Indexed fields for the method and the scheme, literals for path and authority: no state, no Huffman.
        let mut block = vec![if whole { 0x82 } else { 0x83 }, 0x86];
        for (name, value) in [(0x04, path), (0x01, "localhost")] {
            block.extend([name, u8::try_from(value.len()).expect("a short path")]);
            block.extend(value.as_bytes());
        }
        let flags = END_HEADERS | if whole { END_STREAM } else { 0 };
        self.frame(HEADERS, flags, stream, &block);
    }

    pub(crate) fn window(&mut self, stream: u32, more: u32) {
        self.frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
    }

    /// Answers the last PING of the server, for one that was not polite.
    pub(crate) fn pong(&mut self, ping: &Frame) {
        self.frame(PING, ACK, 0, &ping.payload);
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let head = self.client.try_exactly(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload: self
                .client
                .try_exactly(usize::try_from(length).expect("a length"))?,
        };
        match frame.kind {
            SETTINGS if frame.flags != ACK => self.frame(SETTINGS, ACK, 0, &[]),
            PING if frame.flags != ACK && self.polite => self.pong(&frame),
            GOAWAY => self.goaways.extend(frame.last_stream()),
            _ => {}
        }
        Some(frame)
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, what: &str, mut wanted: impl FnMut(&Frame) -> bool) -> Frame {
        let mut seen = Vec::new();
        loop {
            match self.next() {
                Some(frame) if wanted(&frame) => return frame,
                Some(frame) => seen.push(frame),
                None => panic!("closed before {what}: {seen:?}"),
            }
        }
    }

    /// The whole body of a stream that is answered with 200.
    #[track_caller]
    pub(crate) fn answer(&mut self, stream: u32) -> String {
        let mut body = Vec::new();
        self.expect("the end of the answer", |frame| {
            assert!(
                frame.kind != RST_STREAM || frame.stream != stream,
                "reset: {frame:?}"
            );
            if frame.stream == stream && frame.kind == HEADERS {
                // 8 in the static table is `:status 200`.
                assert!(
                    frame.payload.first().is_none_or(|first| *first == 0x88),
                    "not 200: {frame:?}"
                );
            }
            if frame.stream == stream && frame.kind == DATA {
                body.extend_from_slice(&frame.payload);
            }
            frame.stream == stream && frame.ends_stream()
        });
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Reads everything that still comes; the connection must end.
    pub(crate) fn rest_of_it(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
