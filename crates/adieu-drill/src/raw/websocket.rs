//! A WebSocket frame by frame: the check is about the code in the last one.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::http1::RawConn;
use crate::endpoint::Endpoint;

/// A WebSocket that was opened.
pub(crate) struct WebSocket {
    conn: RawConn,
    early: Vec<u8>,
}

/// What came over it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A close, with its code if it had one, and its reason.
    Close(Option<u16>, String),
    /// A ping, with what is to be sent back.
    Ping(Vec<u8>),
    /// Anything else.
    Other,
}

/// Sixteen bytes, as every server may demand: `adieu and thanks`. Whether it hashes them right is not asked here.
const KEY: &str = "YWRpZXUgYW5kIHRoYW5rcw==";

impl WebSocket {
    /// Opens one, or says why not.
    pub(crate) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let mut conn = RawConn::open(&endpoint.target())
            .await
            .map_err(|broken| io::Error::other(broken.to_string()))?;
        let mut request = endpoint.request();
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", KEY),
        ] {
            request.headers.push((name.to_owned(), value.to_owned()));
        }
        conn.send(&request.bytes(false))
            .await
            .map_err(|broken| io::Error::other(broken.to_string()))?;
        let (head, _) = conn.head().await?;
        if head.status != 101 {
            return Err(io::Error::other(format!(
                "status {} in the place of 101",
                head.status
            )));
        }
        let early = conn.take_received().to_vec();
        Ok(Self { conn, early })
    }

    async fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        let here = self.early.len().min(into.len());
        into[..here].copy_from_slice(&self.early[..here]);
        self.early.drain(..here);
        self.conn.connection.read_exact(&mut into[here..]).await?;
        Ok(())
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        let mut head = [0; 2];
        self.read(&mut head).await?;
        let length = match head[1] & 127 {
            126 => {
                let mut bytes = [0; 2];
                self.read(&mut bytes).await?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.read(&mut bytes).await?;
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= 1 << 24);
        let mut payload = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        self.read(&mut payload).await?;
        Ok(match head[0] & 15 {
            8 => {
                let code = payload
                    .get(..2)
                    .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
                let reason = payload.get(2..).unwrap_or_default();
                Message::Close(code, String::from_utf8_lossy(reason).into_owned())
            }
            9 => Message::Ping(payload),
            _ => Message::Other,
        })
    }

    /// Sends a frame; a client masks, and any mask will do.
    pub(crate) async fn send(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
        let length = u8::try_from(payload.len())
            .ok()
            .filter(|length| *length < 126);
        let mut bytes = vec![
            0x80 | kind,
            0x80 | length.ok_or(io::ErrorKind::InvalidInput)?,
        ];
        bytes.extend(MASK);
        bytes.extend(
            payload
                .iter()
                .zip(MASK.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        self.conn.connection.write_all(&bytes).await?;
        self.conn.connection.flush().await
    }

    /// Answers a close in kind.
    pub(crate) async fn close(&mut self, code: Option<u16>) -> io::Result<()> {
        let payload = code.map(u16::to_be_bytes);
        self.send(8, payload.as_ref().map_or(&[], |bytes| &bytes[..]))
            .await
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn the_key_is_sixteen_bytes() {
        assert_eq!(STANDARD.decode(super::KEY).expect("base64").len(), 16);
    }
}
