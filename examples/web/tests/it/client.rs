//! A client that sends exactly the given bytes, over plain TCP or TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::live::PATIENCE;

/// What the client speaks, and through what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http1,
    Http1Tls,
    Http2,
    Http2Tls,
}

impl Over {
    pub(crate) const fn is_tls(self) -> bool {
        matches!(self, Self::Http1Tls | Self::Http2Tls)
    }
}

/// Plays the same for each, all at once.
pub(crate) fn each<const N: usize>(overs: [Over; N], play: impl Fn(Over) + Sync) {
    std::thread::scope(|threads| {
        for over in overs {
            let play = &play;
            threads.spawn(move || play(over));
        }
    });
}

trait Bytes: Read + Write + Send {}
impl<T: Read + Write + Send> Bytes for T {}

/// A connection.
pub(crate) struct Client {
    stream: Box<dyn Bytes>,
    pub(crate) socket: TcpStream,
    /// Read, and not asked for yet.
    rest: Vec<u8>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        let status = self.head.get(9..12).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no status: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn connect(
        address: SocketAddr,
        certificate: Option<&CertificateDer<'static>>,
        over: Over,
    ) -> Self {
        let socket = TcpStream::connect(address).expect("the server accepts");
        Self::on(socket, certificate, over)
    }

    pub(crate) fn on(
        socket: TcpStream,
        certificate: Option<&CertificateDer<'static>>,
        over: Over,
    ) -> Self {
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        socket.set_nodelay(true).expect("no delay can be set");
        let own = socket.try_clone().expect("a socket can be shared");
        let stream: Box<dyn Bytes> = match certificate.filter(|_| over.is_tls()) {
            None => Box::new(own),
            Some(certificate) => {
                let mut stream = StreamOwned::new(tls(certificate, over), own);
                stream.flush().expect("the handshake works");
                Box::new(stream)
            }
        };
        Self {
            stream,
            socket,
            rest: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server reads");
        self.stream.flush().expect("the server reads");
        self
    }

    /// Sends the head of a request without a body.
    pub(crate) fn ask(&mut self, path: &str) -> &mut Self {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    }

    /// Asks and reads the answer.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(path).answer()
    }

    /// Says that it will send nothing more.
    pub(crate) fn close_its_side(&mut self) -> &mut Self {
        self.socket
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
        self
    }

    /// Goes for good, with a reset: not half-closed, after which a client may still wait for its answer.
    pub(crate) fn reset(self) {
        let now = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.socket, now).expect("an option of sockets");
    }

    /// Reads some bytes; none at the end. Silence is neither.
    #[track_caller]
    fn more(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16_384];
        let count = match self.stream.read(&mut bytes) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                panic!("nothing came for {PATIENCE:?}, not even the end")
            }
            // TLS without close_notify: the connection was cut.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        self.rest.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Exactly so many bytes.
    #[track_caller]
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        self.try_exactly(count)
            .unwrap_or_else(|| panic!("closed after {:?}", String::from_utf8_lossy(&self.rest)))
    }

    /// Exactly so many bytes, or `None` if the connection ends before.
    pub(crate) fn try_exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.rest.len() < count {
            if self.more().is_ok_and(|more| more > 0) {
                continue;
            }
            return None;
        }
        Some(self.rest.drain(..count).collect())
    }

    /// Everything up to and with this text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let found = self
                .rest
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(at) = found {
                let taken: Vec<u8> = self.rest.drain(..at + text.len()).collect();
                return String::from_utf8_lossy(&taken).into_owned();
            }
            let more = self.more();
            assert!(
                matches!(more, Ok(1..)),
                "{more:?} before {text:?}; there was {:?}",
                String::from_utf8_lossy(&self.rest)
            );
        }
    }

    /// One answer: by its length, or in chunks.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n");
        let mut answer = Answer {
            head,
            body: Vec::new(),
        };
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.until("\r\n");
                let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
                let chunk = self.exactly(size + 2);
                if size == 0 {
                    return answer;
                }
                answer.body.extend_from_slice(&chunk[..size]);
            }
        }
        let length = answer.header("content-length").unwrap_or("0").parse();
        answer.body = self.exactly(length.expect("a length"));
        answer
    }

    /// Everything up to the end of the connection, however it comes.
    pub(crate) fn rest_of_it(&mut self) -> Vec<u8> {
        while self.more().is_ok_and(|more| more > 0) {}
        std::mem::take(&mut self.rest)
    }

    /// As [`Client::rest_of_it`], but only the last bytes, for answers too large to keep; and how many there were.
    pub(crate) fn skim(&mut self) -> (usize, String) {
        let mut count = 0;
        while let Ok(more @ 1..) = self.more() {
            count += more;
            let old = self.rest.len().saturating_sub(200);
            self.rest.drain(..old);
        }
        (count, String::from_utf8_lossy(&self.rest).into_owned())
    }

    /// Reads at most so many bytes at a time, with a pause after each: a slow line. Gives the number of all.
    pub(crate) fn sip(&mut self, bytes: usize, pause: Duration) -> usize {
        let mut sip = vec![0; bytes];
        let mut count = std::mem::take(&mut self.rest).len();
        while let Ok(more @ 1..) = self.stream.read(&mut sip) {
            count += more;
            std::thread::sleep(pause);
        }
        count
    }

    /// The connection ends now, after these many bytes at most and with the answer that says "try again".
    #[track_caller]
    pub(crate) fn is_told_to_try_again(&mut self) {
        let text = String::from_utf8_lossy(&self.rest_of_it()).into_owned();
        assert!(text.starts_with("HTTP/1.1 408 "), "{text:?}");
        assert!(text.contains("connection: close\r\n"), "{text:?}");
    }

    /// The connection ends, and nothing more is said.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) {
        let rest = self.rest_of_it();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

fn tls(certificate: &CertificateDer<'static>, over: Over) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate.clone())
        .expect("the certificate is one");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions that the provider knows")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![if over == Over::Http2Tls {
        b"h2".to_vec()
    } else {
        b"http/1.1".to_vec()
    }];
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}
