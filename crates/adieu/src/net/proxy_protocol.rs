//! The PROXY protocol on a listener: whose headers are believed, and a header taken off a connection.

use tokio::io::AsyncReadExt;

use super::network::Network;
use super::proxy_header::{HeaderParser, ProxyHeader};
use super::refusal::Refusal;
use super::socket::SharedSocket;
use crate::error::Error;

/// The PROXY protocol, versions 1 and 2, on a listener: load balancers such as HAProxy, nginx and those of AWS begin a
/// connection with a header that has the client's address. Given to
/// [`Listener::proxy_protocol`](crate::net::Listener::proxy_protocol) or to `Serve::proxy_protocol`.
///
/// Every connection from a trusted source must begin with a header. A connection from any other source is closed, because its client
/// could claim any address; connections from [`direct`](Self::direct) sources, health checks say, have no header and are
/// served as they are. The log names the first connection of each kind that is closed, the report counts them.
///
/// ```
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// use adieu::net::ProxyProtocol;
///
/// let behind = ProxyProtocol::trusting(["10.0.0.0/8", "2001:db8::/32"])?.direct(["127.0.0.1"])?;
/// let api = app.listen("api", "127.0.0.1:0").await?.proxy_protocol(behind);
/// # app.tcp(api, |_conn| async {});
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ProxyProtocol {
    trusted: Vec<ProxySource>,
    direct: Vec<ProxySource>,
}

/// Where a connection may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxySource {
    Network(Network),
    /// A process on this machine, by a Unix socket.
    Unix,
}

/// What is done with a connection from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// It has to begin with a header.
    Header,
    /// It has no header.
    Direct,
    Refused,
}

impl ProxyProtocol {
    /// Believes the headers of these sources: addresses (`192.0.2.7`), networks (`10.0.0.0/8`), or `unix` for the clients
    /// of a Unix socket. `0.0.0.0/0` believes every client that can connect.
    ///
    /// # Errors
    /// If one of them is none of these, or there is none.
    pub fn trusting<S: AsRef<str>>(sources: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let trusted = parse(sources)?;
        if trusted.is_empty() {
            let what = "the PROXY protocol trusts no source, so every connection would be closed: name the \
                        addresses of the load balancers, as in 10.0.0.0/8";
            return Err(Error::config(what.to_owned()));
        }
        Ok(Self {
            trusted,
            direct: Vec::new(),
        })
    }

    /// Serves the connections of these sources without a header: health checks of the kubelet, or clients inside the
    /// cluster. Of two networks that have an address, the smaller one counts.
    ///
    /// # Errors
    /// If one of them is neither an address, a network nor `unix`.
    pub fn direct<S: AsRef<str>>(
        mut self,
        sources: impl IntoIterator<Item = S>,
    ) -> Result<Self, Error> {
        self.direct.extend(parse(sources)?);
        Ok(self)
    }

    fn trust(&self, socket: &SharedSocket) -> Trust {
        let address = socket.connected_addr().map(|it| it.ip());
        let matches = |sources: &[ProxySource]| {
            let matched = sources.iter().filter_map(|source| match (source, address) {
                (ProxySource::Network(network), Some(address)) => network.matches(address),
                (ProxySource::Unix, None) => socket.is_unix().then_some(0),
                _ => None,
            });
            matched.max()
        };
        decide(matches(&self.trusted), matches(&self.direct))
    }

    /// Takes the header off a connection, and nothing behind it, and gives the socket the client's address.
    ///
    /// Dropped half-way, a part of the header is read: the connection is closed.
    pub(super) async fn read_header(&self, socket: &SharedSocket) -> Result<(), Refusal> {
        match self.trust(socket) {
            Trust::Header => {}
            Trust::Direct => return Ok(()),
            Trust::Refused => return Err(Refusal::Untrusted),
        }
        let mut parser = HeaderParser::new();
        let mut room = [0; 256];
        loop {
            let wanted = parser.wants().min(room.len());
            let count = socket.clone().read(&mut room[..wanted]).await?;
            if count == 0 {
                return Err(Refusal::Gone);
            }
            match parser.feed(&room[..count])? {
                None => {}
                Some(ProxyHeader::Own) => return Ok(()),
                Some(ProxyHeader::Client {
                    source,
                    destination,
                }) => {
                    socket.set_client(source, destination);
                    return Ok(());
                }
            }
        }
    }
}

/// By the longest prefixes that have the address.
fn decide(trusted: Option<u8>, direct: Option<u8>) -> Trust {
    match (trusted, direct) {
        (None, None) => Trust::Refused,
        (trusted, direct) if direct > trusted => Trust::Direct,
        _ => Trust::Header,
    }
}

fn parse<S: AsRef<str>>(sources: impl IntoIterator<Item = S>) -> Result<Vec<ProxySource>, Error> {
    let sources = sources.into_iter().map(|source| {
        let text = source.as_ref();
        let network = || Network::parse(text).map(ProxySource::Network);
        let source = if text == "unix" { Some(ProxySource::Unix) } else { network() };
        source.ok_or_else(|| {
            let text = crate::util::printable::name_of(text.chars());
            Error::config(format!(
                "invalid source of PROXY headers `{text}`: write an address, a network as in 10.0.0.0/8, or unix"
            ))
        })
    });
    sources.collect()
}
