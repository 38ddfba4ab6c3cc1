//! The PROXY protocol's header: version 1 is a line of text, version 2 is binary. No socket: the caller reads as many bytes as
//! the parser wants, and none that belong to the connection.
//!
//! What a header may be is in <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>. The parser keeps the addresses
//! of a header and passes over its extensions (TLVs), so it has one size, whatever a proxy sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// How version 1 begins.
const LINE: &[u8] = b"PROXY ";
/// The shortest line of version 1, `PROXY UNKNOWN` with its end.
const LINE_MIN: usize = 15;
/// The longest.
const LINE_MAX: usize = 107;
/// How version 2 begins.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The part of version 2 that every header has: signature, command, family, and the length of the rest.
const FIXED: usize = 16;

/// What a proxy says of the connection that it has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyHeader {
    /// It is the proxy's own, as of a health check, or its client has no address.
    Own,
    /// It carries the connection of this client, which has connected to that address.
    Client {
        source: SocketAddr,
        destination: SocketAddr,
    },
}

/// Why it is not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// A header that comes in pieces.
pub(super) struct HeaderParser {
    /// The first bytes of it: all that is looked at.
    kept: [u8; LINE_MAX],
    count: usize,
}

impl HeaderParser {
    pub(super) const fn new() -> Self {
        Self {
            kept: [0; LINE_MAX],
            count: 0,
        }
    }

    /// How many more bytes belong to the header for certain: at least one, until it is whole.
    pub(super) fn wants(&self) -> usize {
        if self.count == 0 {
            LINE_MIN
        } else if self.is_binary() {
            self.end() - self.count
        } else {
            let has_return = self.kept.get(self.count - 1) == Some(&b'\r');
            let line_end = if has_return { 1 } else { 2 };
            LINE_MIN.saturating_sub(self.count).max(line_end)
        }
    }

    /// The header, if it ends with these bytes, of which there are no more than wanted.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<ProxyHeader>, Malformed> {
        let mut header = None;
        for byte in bytes {
            header = self.push(*byte)?;
        }
        Ok(header)
    }

    const fn is_binary(&self) -> bool {
        self.kept[0] == SIGNATURE[0]
    }

    /// Where a binary header ends, as far as its length is known.
    fn end(&self) -> usize {
        if self.count < FIXED {
            FIXED
        } else {
            FIXED + usize::from(u16::from_be_bytes([self.kept[14], self.kept[15]]))
        }
    }

    fn push(&mut self, byte: u8) -> Result<Option<ProxyHeader>, Malformed> {
        let at = self.count;
        if let Some(kept) = self.kept.get_mut(at) {
            *kept = byte;
        }
        self.count += 1;
        let begin = if self.is_binary() { SIGNATURE } else { LINE };
        if begin.get(at).is_some_and(|expected| *expected != byte) {
            return Err(Malformed("the connection does not begin with a header"));
        }
        if self.is_binary() {
            self.after_byte_of_binary()
        } else {
            self.after_byte_of_line(byte)
        }
    }

    fn after_byte_of_line(&self, byte: u8) -> Result<Option<ProxyHeader>, Malformed> {
        if byte == b'\n' {
            let line = self.kept[LINE.len()..self.count].strip_suffix(b"\r\n");
            let line = line.ok_or(Malformed("its line ends without a carriage return"))?;
            return parse_line(line).map(Some);
        }
        if self.count == LINE_MAX {
            return Err(Malformed("its line is longer than 107 bytes"));
        }
        Ok(None)
    }

    fn after_byte_of_binary(&self) -> Result<Option<ProxyHeader>, Malformed> {
        if self.count < FIXED {
            return Ok(None);
        }
        let (command, family) = (self.kept[12], self.kept[13]);
        // At once, and not when the rest has come.
        let addresses = addresses_of(command, family)?;
        if addresses.is_some_and(|family| self.end() < FIXED + family.bytes()) {
            return Err(Malformed("it is too short for its addresses"));
        }
        if self.count < self.end() {
            return Ok(None);
        }
        let block = &self.kept[FIXED..];
        Ok(Some(match addresses {
            None => ProxyHeader::Own,
            Some(Family::V4) => client(
                octets(block, 0).map(Ipv4Addr::from),
                octets(block, 4).map(Ipv4Addr::from),
                &block[8..],
            ),
            Some(Family::V6) => client(
                octets(block, 0).map(Ipv6Addr::from),
                octets(block, 16).map(Ipv6Addr::from),
                &block[32..],
            ),
        }))
    }
}

/// What the addresses of a binary header are.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// Two addresses and two ports.
    const fn bytes(self) -> usize {
        match self {
            Self::V4 => 12,
            Self::V6 => 36,
        }
    }
}

/// Which addresses a binary header has; `None` if the connection's own are to be taken.
fn addresses_of(command: u8, family: u8) -> Result<Option<Family>, Malformed> {
    match (command, family) {
        // LOCAL: the family and the addresses are to be ignored.
        (0x20, _) => Ok(None),
        (0x21, 0x11) => Ok(Some(Family::V4)),
        (0x21, 0x21) => Ok(Some(Family::V6)),
        // Of an unknown kind, or a Unix socket, whose path means nothing on this machine.
        (0x21, 0x00 | 0x31) => Ok(None),
        (0x21, _) => Err(Malformed("it is not about a TCP or Unix stream")),
        (0x22..=0x2f, _) => Err(Malformed("its command is neither LOCAL nor PROXY")),
        _ => Err(Malformed("its version is neither 1 nor 2")),
    }
}

/// The address that begins at this byte of a block that holds at least the largest.
fn octets<const N: usize>(block: &[u8], at: usize) -> Option<[u8; N]> {
    block.get(at..at + N)?.try_into().ok()
}

fn client<A: Into<IpAddr>>(source: Option<A>, destination: Option<A>, ports: &[u8]) -> ProxyHeader {
    let (Some(source), Some(destination), Some([s0, s1, d0, d1])) =
        (source, destination, octets::<4>(ports, 0))
    else {
        return ProxyHeader::Own;
    };
    ProxyHeader::Client {
        source: SocketAddr::new(source.into(), u16::from_be_bytes([s0, s1])),
        destination: SocketAddr::new(destination.into(), u16::from_be_bytes([d0, d1])),
    }
}

/// A line of version 1, between `PROXY ` and its end.
fn parse_line(line: &[u8]) -> Result<ProxyHeader, Malformed> {
    let line = std::str::from_utf8(line).map_err(|_| Malformed("its line is not text"))?;
    let (family, addresses) = line.split_once(' ').unwrap_or((line, ""));
    match family {
        // Whatever stands behind it.
        "UNKNOWN" => Ok(ProxyHeader::Own),
        "TCP4" => parse_addresses::<Ipv4Addr>(addresses),
        "TCP6" => parse_addresses::<Ipv6Addr>(addresses),
        _ => Err(Malformed("its family is none of TCP4, TCP6 and UNKNOWN")),
    }
}

fn parse_addresses<A: FromStr + Into<IpAddr>>(words: &str) -> Result<ProxyHeader, Malformed> {
    let bad = Malformed("its addresses are not two addresses and two ports");
    let mut words = words.split(' ');
    let mut next = || words.next().ok_or(bad);
    let address = |word: &str| word.parse::<A>().map(Into::into).map_err(|_| bad);
    let source: IpAddr = address(next()?)?;
    let destination: IpAddr = address(next()?)?;
    let (source_port, destination_port) = (port(next()?).ok_or(bad)?, port(next()?).ok_or(bad)?);
    if words.next().is_some() {
        return Err(bad);
    }
    Ok(ProxyHeader::Client {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

/// A number without a sign, which the standard library would take.
fn port(word: &str) -> Option<u16> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok()).flatten()
}

#[cfg(test)]
#[path = "proxy_header_tests.rs"]
mod tests;
