//! HTTP/2 frame by frame: a client library would answer a GOAWAY in its own way, and the check is about what the
//! server says.

use std::io;

use adieu_load::{Connection, Request, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A frame as it came.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    const WINDOW_UPDATE: u8 = 8;
    const ACK: u8 = 1;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    /// Whether its stream has nothing more to say.
    pub(crate) const fn ends_stream(&self) -> bool {
        matches!(self.kind, Self::DATA | Self::HEADERS) && self.flags & Self::END_STREAM != 0
    }

    pub(crate) const fn is_ack(&self) -> bool {
        self.flags & Self::ACK != 0
    }

    /// The last stream and the reason of a GOAWAY.
    pub(crate) fn goaway(&self) -> Option<(u32, u32)> {
        if self.kind != Self::GOAWAY || self.payload.len() < 8 {
            return None;
        }
        let number = |at: usize| {
            let bytes = self.payload.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        Some((number(0)? & 0x7fff_ffff, number(4)?))
    }
}

/// A connection that speaks frames.
pub(crate) struct H2 {
    connection: Connection,
    next: u32,
}

impl H2 {
    /// Connects and says what a client says first.
    pub(crate) async fn open(target: &Target) -> io::Result<Self> {
        let connection = target.clone().offering(b"h2").connect().await?;
        let mut h2 = Self {
            connection,
            next: 1,
        };
        h2.connection
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await?;
        h2.send(Frame::SETTINGS, 0, 0, &[]).await?;
        Ok(h2)
    }

    pub(crate) async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let length = u32::try_from(payload.len())
            .map_err(io::Error::other)?
            .to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        self.connection.write_all(&bytes).await?;
        self.connection.flush().await
    }

    /// Opens a stream with a request without a body, and says which it is.
    pub(crate) async fn request(&mut self, request: &Request, tls: bool) -> io::Result<u32> {
        let stream = self.next;
        self.next += 2;
        let mut block = Vec::new();
        let scheme = if tls { "https" } else { "http" };
        literal(&mut block, ":method", "GET");
        literal(&mut block, ":scheme", scheme);
        literal(&mut block, ":path", &request.path);
        literal(&mut block, ":authority", &request.host);
        for (name, value) in &request.headers {
            literal(&mut block, &name.to_ascii_lowercase(), value);
        }
        self.send(
            Frame::HEADERS,
            Frame::END_STREAM | Frame::END_HEADERS,
            stream,
            &block,
        )
        .await?;
        Ok(stream)
    }

    /// The next frame. What a client must answer for the connection to go on is answered here, save a PING. An answer that cannot
    /// be sent is ignored: what the server said before it closed is still to be read.
    pub(crate) async fn next(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.connection.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if length > 1 << 20 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut payload = vec![0; length];
        self.connection.read_exact(&mut payload).await?;
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff,
            payload,
        };
        if frame.kind == Frame::SETTINGS && !frame.is_ack() {
            let _ = self.send(Frame::SETTINGS, Frame::ACK, 0, &[]).await;
        }
        if frame.kind == Frame::DATA && length > 0 {
            let update = u32::try_from(length).unwrap_or_default().to_be_bytes();
            let _ = self.send(Frame::WINDOW_UPDATE, 0, 0, &update).await;
            if !frame.ends_stream() {
                let _ = self
                    .send(Frame::WINDOW_UPDATE, 0, frame.stream, &update)
                    .await;
            }
        }
        Ok(frame)
    }

    /// Answers a PING.
    pub(crate) async fn pong(&mut self, ping: &Frame) -> io::Result<()> {
        self.send(Frame::PING, Frame::ACK, 0, &ping.payload).await
    }
}

/// A field that is not to be indexed, with a name and a value as they are.
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        // A prefix of seven bits, and whatever is more than it can say in groups of seven.
        match u8::try_from(text.len()) {
            Ok(length @ ..127) => block.push(length),
            _ => {
                block.push(127);
                let mut rest = text.len() - 127;
                while rest >= 128 {
                    block.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_above_the_prefix_goes_on() {
        let mut block = Vec::new();
        literal(&mut block, "a", &"x".repeat(127 + 200));
        assert_eq!(block[..3], [0, 1, b'a']);
        // 200 = 72 + 1 * 128
        assert_eq!(block[3..6], [127, 72 | 128, 1]);
        assert_eq!(block.len(), 6 + 327);
    }

    #[test]
    fn a_goaway_has_a_last_stream_and_a_reason() {
        let frame = Frame {
            kind: Frame::GOAWAY,
            flags: 0,
            stream: 0,
            payload: vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2],
        };
        assert_eq!(frame.goaway(), Some((0x7fff_ffff, 2)));
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_is_heard() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::tcp(listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 24 + 9]).await.unwrap();
            let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
            stream.write_all(&settings).await.unwrap();
            stream.write_all(&goaway).await.unwrap();
        };
        let ((), h2) = tokio::join!(server, H2::open(&target));
        let mut h2 = h2.unwrap();
        // Until it is known here that the peer does not read any more.
        while h2.send(Frame::PING, 0, 0, &[0; 8]).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(h2.next().await.unwrap().kind, Frame::SETTINGS);
        assert_eq!(h2.next().await.unwrap().goaway(), Some((1, 0)));
    }
}
