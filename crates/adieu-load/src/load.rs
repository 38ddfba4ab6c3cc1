//! A load that is being configured, and a running one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, LoadState};
use crate::request::Request;
use crate::tally::Tally;
use crate::target::Target;

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One connection for as long as the server keeps it.
    KeepAlive,
    /// A connection for each request.
    Fresh,
    /// Kept or not, at random.
    Mixed,
}

#[derive(Clone, Debug)]
pub(crate) enum Protocol {
    Http1 { request: Arc<[u8]>, last: Arc<[u8]> },
    Http2 { uri: http::Uri, streams: usize },
    Lines { goodbye: Option<Arc<[u8]>> },
}

/// A load about to start.
#[derive(Clone, Debug)]
#[must_use = "a load does nothing until `start`"]
pub struct Load {
    target: Target,
    protocol: Protocol,
    clients: usize,
    mode: Mode,
    patience: Duration,
    seed: u64,
    kept: usize,
}

impl Load {
    const fn new(target: Target, protocol: Protocol) -> Self {
        Self {
            target,
            protocol,
            clients: 32,
            mode: Mode::KeepAlive,
            patience: Duration::from_secs(10),
            seed: 1,
            kept: 0,
        }
    }

    /// Asks for this path with HTTP/1.1.
    pub fn http1(target: Target, path: &str) -> Self {
        Self::request(target, &Request::get(path))
    }

    /// Sends this request with HTTP/1.1.
    pub fn request(target: Target, request: &Request) -> Self {
        let protocol = Protocol::Http1 {
            request: request.bytes(false).into(),
            last: request.bytes(true).into(),
        };
        Self::new(target.offering(b"http/1.1"), protocol)
    }

    /// Asks for this path with HTTP/2, four streams at a time on each connection.
    ///
    /// # Panics
    ///
    /// If the path cannot stand in a URI.
    pub fn http2(target: Target, path: &str) -> Self {
        let uri = http::Uri::try_from(format!("http://localhost{path}"));
        let protocol = Protocol::Http2 {
            uri: uri.expect("a path begins with a slash"),
            streams: 4,
        };
        Self::new(target.offering(b"h2"), protocol)
    }

    /// Sends lines to a server that echoes them and, at its stop, sends this goodbye.
    pub fn lines(target: Target, goodbye: &str) -> Self {
        let goodbye = Some(goodbye.as_bytes().into());
        Self::new(target, Protocol::Lines { goodbye })
    }

    /// Sends lines to a server that answers each with a line that has it inside. Any other line is taken for a
    /// goodbye if the connection ends with it.
    pub const fn echo(target: Target) -> Self {
        Self::new(target, Protocol::Lines { goodbye: None })
    }

    /// How many clients at a time. 32 if left out.
    pub const fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// How connections are used. Kept if left out.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How long a client waits for a connection or an answer. 10 s if left out.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What the choices of [`Mode::Mixed`] are drawn from.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Keeps the last so many requests of each client as spans. None if left out.
    pub const fn keep(mut self, last: usize) -> Self {
        self.kept = last;
        self
    }

    /// Starts the clients on the present tokio runtime. Each goes on until it is refused, or told to end.
    pub fn start(self) -> Running {
        let shared = Arc::new(LoadState::default());
        let (end, ending) = watch::channel(false);
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let client = Client {
                target: self.target.clone(),
                protocol: self.protocol.clone(),
                mode: self.mode,
                patience: self.patience,
                // An odd multiplier spreads neighbouring numbers; zero would stay zero.
                rng: (self.seed ^ (number as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                shared: Arc::clone(&shared),
                ending: ending.clone(),
                tally: Tally::default(),
                kept: self.kept,
                connection: 0,
                began: Instant::now(),
            };
            clients.spawn(client.run());
        }
        Running {
            clients,
            shared,
            end,
        }
    }
}

/// A running load. Dropping it ends all clients at once.
#[must_use = "a load that is dropped ends"]
pub struct Running {
    clients: JoinSet<Tally>,
    shared: Arc<LoadState>,
    end: watch::Sender<bool>,
}

impl Running {
    /// Completes when so many answers have come. Cancel-safe.
    pub async fn answered(&self, count: u64) {
        self.shared.answered(count).await;
    }

    /// Asks every client to end after the answer it waits for.
    pub fn end(&self) {
        let _ = self.end.send(true);
    }

    /// Waits until every client has ended, by itself or because it was asked to. Dropping it ends all clients
    /// at once.
    ///
    /// # Panics
    ///
    /// If a client did.
    pub async fn finish(mut self) -> Tally {
        let mut sum = Tally::default();
        while let Some(tally) = self.clients.join_next().await {
            sum += tally.expect("a client does not panic");
        }
        sum
    }
}
