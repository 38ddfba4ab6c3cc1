//! HTTP/1.1 by hand: what was sent and what came back is known to the byte.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use crate::client::Client;
use crate::head::{Body, Head};
use crate::load::Mode;
use crate::outcome::{Loss, Outcome};
use crate::target::Connection;
use crate::timeout::RequestTimeout;

impl Client {
    pub(crate) async fn drive_http1(&mut self, connection: Connection, next: &[u8], last: &[u8]) {
        let mut conn = Http1Conn::new(connection);
        let mut patience = RequestTimeout::new(self.patience);
        while !self.is_ending() {
            self.began = Instant::now();
            let keep = self.keeps();
            // One mode says that it will not come back; the other simply does not.
            let request = if self.mode == Mode::Fresh { last } else { next };
            let exchange = patience.wait(self.began, conn.exchange(request)).await;
            let exchange = exchange.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
            let outcome = match &exchange {
                Ok(answer) => answer.outcome(),
                Err(error) => conn.outcome_of(error),
            };
            self.settle(outcome, || match &exchange {
                Ok(answer) => format!("status {}", answer.status),
                Err(error) => conn.describe(error),
            });
            let may_go_on = matches!(exchange, Ok(answer) if answer.keep_alive);
            if !keep || !may_go_on || !conn.is_open().await {
                return;
            }
        }
    }
}

/// A whole answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) keep_alive: bool,
}

impl Answer {
    pub(crate) const fn outcome(self) -> Outcome {
        match self.status {
            408 => Outcome::Retry,
            status @ 500.. => Outcome::Failed(status),
            _ => Outcome::Answered,
        }
    }
}

/// A connection with the state of the present exchange.
pub(crate) struct Http1Conn {
    connection: Connection,
    received: BytesMut,
    last: LastHead,
    sent_whole: bool,
    answered_bytes: u64,
    exchanges: u64,
}

/// The last head of a connection. The next is as a rule the same to the byte, and then there is nothing to parse.
#[derive(Default)]
struct LastHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl LastHead {
    /// Takes the head off what was received, if all of it is here.
    fn take_head(&mut self, received: &mut BytesMut) -> io::Result<Option<Head>> {
        if let Some(head) = self.head
            && received.starts_with(&self.bytes)
        {
            received.advance(self.bytes.len());
            return Ok(Some(head));
        }
        let Some(end) = Head::end(received) else {
            return Ok(None);
        };
        let head = Head::parse(&received[..end])?;
        self.bytes.clear();
        self.bytes.extend_from_slice(&received[..end]);
        self.head = Some(head);
        received.advance(end);
        Ok(Some(head))
    }
}

impl Http1Conn {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            received: BytesMut::with_capacity(4_096),
            sent_whole: false,
            last: LastHead::default(),
            answered_bytes: 0,
            exchanges: 0,
        }
    }

    /// What became of a request whose exchange failed like this.
    pub(crate) fn outcome_of(&self, error: &io::Error) -> Outcome {
        if !self.sent_whole {
            return Outcome::Unsent;
        }
        Outcome::Lost(match error.kind() {
            _ if self.answered_bytes > 0 => Loss::Truncated,
            io::ErrorKind::TimedOut => Loss::TimedOut,
            io::ErrorKind::UnexpectedEof => Loss::Closed,
            _ => Loss::Reset,
        })
    }

    pub(crate) fn describe(&self, error: &io::Error) -> String {
        format!(
            "request {} of its connection, {} bytes of the answer, then: {error}",
            self.exchanges, self.answered_bytes
        )
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.exchanges += 1;
        (self.sent_whole, self.answered_bytes) = (false, 0);
        self.connection.write_all(request).await?;
        self.connection.flush().await?;
        self.sent_whole = true;
        let head = loop {
            match self.last.take_head(&mut self.received)? {
                Some(head) if head.is_interim() => self.answered_bytes = self.received.len() as u64,
                Some(head) => break head,
                None => self.more().await?,
            }
        };
        let mut keep_alive = head.keep_alive;
        match head.body {
            // It tells of a body and has none.
            _ if request.starts_with(b"HEAD ") => {}
            Body::Length(length) => self.skip(length).await?,
            Body::Chunked => while self.skip_chunk().await? {},
            Body::UntilClose => {
                keep_alive = false;
                while self.connection.read_buf(&mut self.received).await? > 0 {
                    self.received.clear();
                }
            }
        }
        // Whatever follows an answer was not asked for; the server is done with the connection.
        keep_alive &= self.received.is_empty();
        Ok(Answer {
            status: head.status,
            keep_alive,
        })
    }

    async fn more(&mut self) -> io::Result<()> {
        // What was read before makes room; a buffer that is nearly full would be filled by drops.
        self.received.reserve(1_024);
        let count = self.connection.read_buf(&mut self.received).await?;
        self.answered_bytes += count as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn skip(&mut self, mut length: u64) -> io::Result<()> {
        loop {
            let here =
                usize::try_from(length).map_or(self.received.len(), |l| l.min(self.received.len()));
            self.received.advance(here);
            length -= here as u64;
            if length == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn line(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                return Ok(self.received.split_to(end + 1));
            }
            self.more().await?;
        }
    }

    /// Whether another one follows.
    async fn skip_chunk(&mut self) -> io::Result<bool> {
        let line = self.line().await?;
        let digits = line[..].split(|byte| *byte == b';').next();
        let digits = digits.unwrap_or_default();
        let size = std::str::from_utf8(digits.trim_ascii())
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        if size > 0 {
            self.skip(size + 2).await?;
            return Ok(true);
        }
        // Trailers, up to an empty line.
        while !self.line().await?.trim_ascii().is_empty() {}
        Ok(false)
    }

    /// Whether the server has neither closed nor said anything since its answer, as far as can be known.
    pub(crate) async fn is_open(&mut self) -> bool {
        poll_fn(|cx| {
            let mut byte = [0];
            let polled = Pin::new(&mut self.connection).poll_read(cx, &mut ReadBuf::new(&mut byte));
            Poll::Ready(polled.is_pending())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::load::Load;
    use crate::target::Target;

    const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

    /// One client gets its answer after the hints, the other gets nothing more, and then the listener is gone.
    #[tokio::test]
    async fn hints_are_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Load::http1(Target::tcp(listener.local_addr().unwrap()), "/")
            .clients(1)
            .start();
        for answer in [ANSWER, b""] {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert!(peer.read(&mut [0; 4_096]).await.unwrap() > 0);
            peer.write_all(HINTS).await.unwrap();
            peer.write_all(answer).await.unwrap();
            if answer.is_empty() {
                drop(listener);
                break;
            }
        }
        let tally = running.finish().await;
        assert_eq!(
            (tally.answered, tally.closed, tally.refused),
            (1, 1, 1),
            "{tally}"
        );
    }
}
