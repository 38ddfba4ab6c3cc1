//! Sockets, as /proc lists them, and what can be done to one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::SplitAsciiWhitespace;

/// The sockets of a process, each by the number of its descriptor and by its inode. The process is a number, or `self`.
pub fn sockets_of(process: &str) -> impl Iterator<Item = (i32, u64)> {
    fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let link = fs::read_link(entry.path()).ok()?;
            Some((number, inode(link.to_str()?)?))
        })
}

/// The inode in the name of a descriptor that is a socket, as in `socket:[12345]`.
#[must_use]
pub fn inode(link: &str) -> Option<u64> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

/// A line of the table of TCP sockets, `/proc/net/tcp` or `tcp6`:
/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`.
///
/// What is asked for is read, and no more: a busy machine has a hundred thousand lines.
#[derive(Clone, Debug)]
pub struct TcpRow<'a> {
    local: &'a str,
    remote: &'a str,
    state: u8,
    rest: SplitAsciiWhitespace<'a>,
}

impl<'a> TcpRow<'a> {
    const LISTEN: u8 = 0x0A;

    /// None for any other line, as for the head of the table.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line.split_ascii_whitespace();
        let _number = rest.next()?;
        let (local, remote) = (rest.next()?, rest.next()?);
        let state = u8::from_str_radix(rest.next()?, 16).ok()?;
        Some(Self {
            local,
            remote,
            state,
            rest,
        })
    }

    /// The kernel's number of its state, `net/tcp_states.h`.
    #[must_use]
    pub const fn state(&self) -> u8 {
        self.state
    }

    /// Whether it listens.
    #[must_use]
    pub const fn is_listening(&self) -> bool {
        self.state == Self::LISTEN
    }

    /// Its port.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        let (_, port) = self.local.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    }

    /// Its own address, as it is in the table: an IPv4 address may stand in the form that IPv6 has for it.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        address(self.local)
    }

    /// The address of its peer, as it is in the table.
    #[must_use]
    pub fn remote(&self) -> Option<SocketAddr> {
        address(self.remote)
    }

    /// How many bytes were not read yet; of a socket that listens, how many connections wait in its accept queue.
    #[must_use]
    pub fn receive_queue(&self) -> Option<u32> {
        let (_, queue) = self.rest.clone().next()?.split_once(':')?;
        u32::from_str_radix(queue, 16).ok()
    }

    /// 0 for one that no process has: a connection that waits in an accept queue, or that has ended.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        self.rest.clone().nth(5)?.parse().ok()
    }
}

/// `0100007F:1F90`: the kernel prints the words of an address as numbers of the machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// A line of the table of Unix sockets, `/proc/net/unix`: `Num RefCount Protocol Flags Type St Inode Path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnixRow<'a> {
    /// Where it is bound, blanks and all. Connections carry the path of their listener.
    pub path: &'a [u8],
    /// Its inode.
    pub inode: u64,
    /// Whether it listens.
    pub is_listening: bool,
    /// Whether it is connected, or about to be. One that listens, or is bound and will, is not.
    pub is_connected: bool,
}

impl<'a> UnixRow<'a> {
    /// None for any other line, and for a socket without a path.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        const ACCEPTS: &[u8] = b"00010000";
        const UNCONNECTED: &[u8] = b"01";
        let mut columns: [&[u8]; 7] = [&[]; 7];
        let mut path = line;
        for column in &mut columns {
            path = path.trim_ascii_start();
            let end = path.iter().position(|byte| *byte == b' ')?;
            (*column, path) = (&path[..end], &path[end + 1..]);
        }
        Some(Self {
            path,
            inode: std::str::from_utf8(columns[6]).ok()?.parse().ok()?,
            is_listening: columns[3] == ACCEPTS,
            is_connected: columns[5] != UNCONNECTED,
        })
    }
}

/// Hides a listening socket from new connections while handshakes half done still finish into its queue.
///
/// Binds it to an interface that does not exist: the lookup for a new SYN no longer finds the listener, so it
/// is refused at once. Linux checks neither that the interface exists nor, since 5.7, for a privilege; so
/// the caller tries it out first.
///
/// # Errors
///
/// If the kernel does not allow it.
#[cfg(target_os = "linux")]
pub fn cloak(socket: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
    crate::sys::bind_to_interface(socket, i32::MAX)
}

// The tables are those of a little-endian machine.
#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_addresses_queue_and_inode() {
        let line = "   7: 0100007F:1F90 0200007F:C350 01 00000000:00000009 00:00000000 00000000     0        0 4242 1 x\n";
        let row = TcpRow::parse(line).expect("a row");
        assert_eq!(row.local(), "127.0.0.1:8080".parse().ok());
        assert_eq!(row.remote(), "127.0.0.2:50000".parse().ok());
        assert_eq!((row.local_port(), row.state()), (Some(8080), 1));
        assert_eq!((row.receive_queue(), row.inode()), (Some(9), Some(4242)));
        assert!(!row.is_listening());
    }

    #[test]
    fn an_address_of_ipv6_has_four_words() {
        let ip = |text: &str| address(text).map(|it| it.ip().to_string());
        assert_eq!(
            ip("00000000000000000000000001000000:1F90").as_deref(),
            Some("::1")
        );
        assert_eq!(
            ip("0000000000000000FFFF00000100007F:1F94").as_deref(),
            Some("::ffff:127.0.0.1")
        );
        for broken in ["", "0100007F", "01007F:1F90", "é000007F:1F90", "0100007F:é"] {
            assert_eq!(address(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_line_that_is_cut_has_no_inode() {
        let listens = "0: 0100007F:1F90 00000000:0000 0A";
        let row = TcpRow::parse(listens).expect("a row");
        assert!(row.is_listening());
        assert_eq!((row.receive_queue(), row.inode()), (None, None));
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when";
        for line in ["", "\n", "0: x", head] {
            assert!(TcpRow::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_path_may_have_blanks() {
        let parse = |line: &'static str| UnixRow::parse(line.as_bytes());
        let row = parse(
            "0000000000000000: 00000002 00000000 00010000 0001 01 123456 /run/with blanks  in.sock",
        );
        let row = row.expect("a row");
        assert_eq!(
            (row.path, row.inode),
            (&b"/run/with blanks  in.sock"[..], 123_456)
        );
        assert!(row.is_listening && !row.is_connected);
        let row = parse("0000000000000000: 00000003 00000000 00000000 0001 03 3002 /run/a.sock");
        let row = row.expect("a row");
        assert!(!row.is_listening && row.is_connected);
        for other in [
            "",
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "0000000000000000: 00000003 00000000 00000000 0001 03  3003",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listener_is_found_and_hidden() {
        use std::os::fd::{AsFd, AsRawFd};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let at = listener.local_addr().expect("an address");
        let ours = sockets_of("self").find(|(number, _)| *number == listener.as_raw_fd());
        let (_, inode) = ours.expect("it is ours");
        let table = fs::read_to_string("/proc/self/net/tcp").expect("a table");
        let found = table.lines().filter_map(TcpRow::parse).find(|row| {
            row.is_listening() && row.local() == Some(at) && row.inode() == Some(inode)
        });
        assert_eq!(found.and_then(|row| row.receive_queue()), Some(0));
        cloak(listener.as_fd()).expect("it is hidden");
        let refused = std::net::TcpStream::connect(at).expect_err("it is refused");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}
