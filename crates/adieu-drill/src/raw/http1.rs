//! HTTP/1.1 piece by piece.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use adieu_load::{Body, Connection, Head, Request, Target};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::answer::{Answer, Digest, WireError};
use crate::endpoint::Endpoint;
use crate::raw::ANSWER_TIMEOUT;

/// A connection with the state of what was said on it.
pub(crate) struct RawConn {
    pub(crate) connection: Connection,
    /// The client's end of it.
    pub(crate) from: Option<SocketAddr>,
    received: BytesMut,
    /// Whether the present request went out whole.
    sent: bool,
    /// Bytes of the present answer.
    heard: u64,
    /// Whether each answer to come tells of a body and has none, as that to a HEAD does.
    bodiless: VecDeque<bool>,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With an orderly close.
    Closed,
    /// With a reset, or some other error.
    WireError(io::Error),
}

impl RawConn {
    /// Connects. A server that never shakes hands is none.
    pub(crate) async fn open(target: &Target) -> Result<Self, WireError> {
        match in_time(target.connect_from()).await {
            Ok((connection, from)) => Ok(Self {
                connection,
                from,
                received: BytesMut::with_capacity(4_096),
                sent: false,
                heard: 0,
                bodiless: VecDeque::new(),
            }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(WireError::Refused)
            }
            Err(error) => Err(WireError::Unsent(error)),
        }
    }

    /// One question on a connection of its own.
    pub(crate) async fn ask(endpoint: &Endpoint, request: &Request) -> Result<Answer, WireError> {
        let mut conn = Self::open(&endpoint.target()).await?;
        conn.send(&request.bytes(true)).await?;
        conn.answer().await
    }

    /// As [`ask`](Self::ask), with a limit for each step.
    pub(crate) async fn ask_within(
        endpoint: &Endpoint,
        request: &Request,
        patience: Duration,
    ) -> Result<Answer, WireError> {
        let mut conn = timeout(patience, Self::open(&endpoint.target()))
            .await
            .unwrap_or_else(|_| Err(WireError::Unsent(io::ErrorKind::TimedOut.into())))?;
        conn.send(&request.bytes(true)).await?;
        conn.answer_within(patience).await
    }

    /// Sends all of a request.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.send_together(&[bytes]).await
    }

    /// Sends several in one breath.
    pub(crate) async fn send_together(&mut self, requests: &[&[u8]]) -> Result<(), WireError> {
        let is_head = |request: &&[u8]| request.starts_with(b"HEAD ");
        self.bodiless = requests.iter().map(is_head).collect();
        self.send_part(&requests.concat()).await?;
        self.sent = true;
        Ok(())
    }

    /// Sends some of one.
    pub(crate) async fn send_part(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        (self.sent, self.heard) = (false, 0);
        let connection = &mut self.connection;
        let sent = in_time(async {
            connection.write_all(bytes).await?;
            connection.flush().await
        });
        sent.await.map_err(WireError::Unsent)
    }

    /// Sends the rest of it.
    pub(crate) async fn send_rest(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.send_part(bytes).await?;
        self.sent = true;
        Ok(())
    }

    /// Reads a whole answer, which may take forever.
    pub(crate) async fn answer(&mut self) -> Result<Answer, WireError> {
        self.heard = self.received.len() as u64;
        match self.read_answer().await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Reads a whole answer in so much time.
    pub(crate) async fn answer_within(&mut self, patience: Duration) -> Result<Answer, WireError> {
        match timeout(patience, self.answer()).await {
            Ok(answer) => answer,
            Err(_) => Err(self.timed_out()),
        }
    }

    /// What an answer is that ended with this in the place of its end.
    pub(crate) fn broken(&self, error: io::Error) -> WireError {
        WireError::new(error, self.sent, self.heard)
    }

    /// The error of an answer that did not come in time.
    pub(crate) const fn timed_out(&self) -> WireError {
        WireError::TimedOut(self.heard)
    }

    /// Reads a head, and leaves what follows.
    pub(crate) async fn head(&mut self) -> io::Result<(Head, String)> {
        loop {
            while let Some(end) = Head::end(&self.received) {
                let bytes = self.received.split_to(end);
                let head = Head::parse(&bytes)?;
                // `100 Continue` and its like come before the answer.
                if !head.is_interim() {
                    return Ok((head, String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
            if self.received.len() > 1 << 20 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.more().await?;
        }
    }

    async fn read_answer(&mut self) -> io::Result<Answer> {
        let (head, text) = self.head().await?;
        let bodiless = self.bodiless.pop_front().unwrap_or(false);
        let body = match head.body {
            _ if bodiless => Digest::default(),
            body => self.body(body).await?,
        };
        Ok(Answer { head, text, body })
    }

    /// Reads a whole body.
    pub(crate) async fn body(&mut self, body: Body) -> io::Result<Digest> {
        let mut digest = Digest::default();
        match body {
            Body::Length(length) => self.take(length, &mut digest).await?,
            Body::Chunked => while self.chunk(&mut digest).await? {},
            Body::UntilClose => loop {
                digest.add(&self.received);
                self.received.clear();
                match self.more().await {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                    Err(error) => return Err(error),
                }
            },
        }
        Ok(digest)
    }

    /// Reads until something came, and leaves it.
    pub(crate) async fn more(&mut self) -> io::Result<()> {
        let count = self.connection.read_buf(&mut self.received).await?;
        self.heard += count as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn take(&mut self, mut length: u64, digest: &mut Digest) -> io::Result<()> {
        loop {
            let here =
                usize::try_from(length).map_or(self.received.len(), |l| l.min(self.received.len()));
            digest.add(&self.received[..here]);
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
            if self.received.len() > 65_536 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.more().await?;
        }
    }

    /// Reads a chunk, and says whether another one follows.
    pub(crate) async fn chunk(&mut self, digest: &mut Digest) -> io::Result<bool> {
        let line = self.line().await?;
        let digits = line[..]
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        let size = std::str::from_utf8(digits.trim_ascii())
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        if size > 0 {
            self.take(size, digest).await?;
            self.line().await?;
            return Ok(true);
        }
        while !self.line().await?.trim_ascii().is_empty() {}
        Ok(false)
    }

    /// Reads whatever comes, until the connection ends.
    pub(crate) async fn end(&mut self) -> End {
        loop {
            self.received.clear();
            match self.more().await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return End::Closed,
                Err(error) => return End::WireError(error),
            }
        }
    }

    /// What came and was not read yet.
    pub(crate) fn take_received(&mut self) -> BytesMut {
        self.received.split()
    }
}

/// A server that takes nothing for so long takes nothing.
async fn in_time<T>(doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = timeout(ANSWER_TIMEOUT, doing).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
