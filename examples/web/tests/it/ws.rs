//! The client's side of a WebSocket, frame by frame.

use crate::client::{Client, Over};
use crate::live::Live;

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;

/// A WebSocket.
pub(crate) struct Ws {
    pub(crate) client: Client,
}

impl Ws {
    pub(crate) fn connect(live: &Live, over: Over, path: &str) -> Self {
        let mut client = live.connect(over);
        client.send(format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ));
        let head = client.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Self { client }
    }

    /// Sends a frame with a mask of zeros, which leaves the bytes as they are.
    pub(crate) fn send(&mut self, opcode: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len())
            .ok()
            .filter(|length| *length < 126);
        let mut frame = vec![0x80 | opcode, 0x80 | length.expect("a short frame")];
        frame.extend([0; 4]);
        frame.extend(payload);
        self.client.send(frame);
    }

    /// The next frame: opcode and payload.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (u8, Vec<u8>) {
        let head = self.client.exactly(2);
        assert!(head[1] < 126, "a short frame: {head:?}");
        let payload = self.client.exactly(usize::from(head[1]));
        (head[0] & 0x0f, payload)
    }

    /// The next frame closes, with this code.
    #[track_caller]
    pub(crate) fn is_told(&mut self, code: u16) {
        let (opcode, payload) = self.next();
        assert_eq!(opcode, CLOSE, "{payload:?}");
        assert_eq!(payload.get(..2), Some(&code.to_be_bytes()[..]));
    }
}
