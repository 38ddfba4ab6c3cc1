//! Clients that open one connection each, and never another.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::DEPLOY_TIMEOUT;

/// How often a client asks, and the service sends an event.
pub(super) const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    KeepAlive,
    WebSocket,
    Events,
}

impl ConnectionKind {
    pub(super) const ALL: [Self; 3] = [Self::KeepAlive, Self::WebSocket, Self::Events];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::WebSocket => "WebSocket",
            Self::Events => "events",
        }
    }
}

/// A number that a client has received.
pub(super) struct Message {
    pub(super) kind: ConnectionKind,
    pub(super) number: u64,
    /// The process that has sent it.
    pub(super) pid: u32,
    pub(super) at: Instant,
}

/// Receives until the connection ends; then says why, if anything still listens.
pub(super) fn run(
    kind: ConnectionKind,
    address: SocketAddr,
    tell: &Sender<Result<Message, String>>,
) {
    let ended = match OpenConnection::open(address) {
        Ok(connection) => connection.receive(kind, tell),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        let why = format!("{}: the connection has ended: {error}", kind.name());
        let _ = tell.send(Err(why));
    }
}

struct OpenConnection(BufReader<TcpStream>);

impl OpenConnection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEPLOY_TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn receive(
        mut self,
        kind: ConnectionKind,
        tell: &Sender<Result<Message, String>>,
    ) -> io::Result<()> {
        match kind {
            ConnectionKind::KeepAlive => {}
            ConnectionKind::WebSocket => {
                self.send(b"GET /websocket HTTP/1.1\r\nhost: demo\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                    sec-websocket-version: 13\r\nsec-websocket-key: ZGVtb2RlbW9kZW1vZGVtbw==\r\n\r\n")?;
                self.head("HTTP/1.1 101")?;
            }
            ConnectionKind::Events => {
                self.send(
                    b"GET /events HTTP/1.1\r\nhost: demo\r\naccept: text/event-stream\r\n\r\n",
                )?;
                self.head("HTTP/1.1 200")?;
            }
        }
        for count in 1.. {
            let (number, pid) = match kind {
                ConnectionKind::KeepAlive => (Some(count), self.ask()?),
                ConnectionKind::WebSocket => self.count()?,
                ConnectionKind::Events => self.event()?,
            };
            let strange = || io::Error::other("a message that makes no sense");
            let message = Message {
                kind,
                number: number.ok_or_else(strange)?,
                pid: pid.ok_or_else(strange)?,
                at: Instant::now(),
            };
            if tell.send(Ok(message)).is_err() {
                return Ok(());
            }
            if kind != ConnectionKind::Events {
                thread::sleep(ASK_INTERVAL);
            }
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn exact(&mut self, size: usize) -> io::Result<String> {
        let mut bytes = vec![0; size];
        self.0.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    /// The head of a response that begins like this; the size of its body, or 0.
    fn head(&mut self, beginning: &str) -> io::Result<usize> {
        let first = self.line()?;
        if !first.starts_with(beginning) {
            return Err(io::Error::other(format!("it answers {first:?}")));
        }
        let mut size = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(size);
            }
            if let Some(length) = line.strip_prefix("content-length: ") {
                size = length.parse().map_err(io::Error::other)?;
            }
        }
    }

    /// A request on the same connection as the one before.
    fn ask(&mut self) -> io::Result<Option<u32>> {
        self.send(b"GET /keep-alive HTTP/1.1\r\nhost: demo\r\n\r\n")?;
        let size = self.head("HTTP/1.1 200")?;
        Ok(self.exact(size)?.parse().ok())
    }

    /// A message of one byte with a mask of zeros, and its answer, which is short.
    fn count(&mut self) -> io::Result<(Option<u64>, Option<u32>)> {
        self.send(&[0x81, 0x81, 0, 0, 0, 0, b'?'])?;
        let mut head = [0; 2];
        self.0.read_exact(&mut head)?;
        let text = self.exact(usize::from(head[1] & 0x7f))?;
        let (number, pid) = match text.split_once(' ') {
            Some((number, pid)) if head[0] == 0x81 => (number.parse().ok(), pid.parse().ok()),
            _ => (None, None),
        };
        Ok((number, pid))
    }

    /// An event is a chunk of the response.
    fn event(&mut self) -> io::Result<(Option<u64>, Option<u32>)> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let chunk = self.exact(size + 2)?;
        let field = |name| chunk.lines().find_map(|line| line.strip_prefix(name));
        Ok((
            field("id: ").and_then(|id| id.parse().ok()),
            field("data: ").and_then(|pid| pid.parse().ok()),
        ))
    }
}
