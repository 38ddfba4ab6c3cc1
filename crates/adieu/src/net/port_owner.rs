//! Who holds an address that is taken: for an error message that helps.
//!
//! Linux lists its sockets in tables of text, each with an inode, and the inode stands in the descriptors of the
//! process that holds the socket. Elsewhere there are no such files, and no process is named.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use adieu_os::process;
use adieu_os::socket::{TcpRow, UnixRow, sockets_of};

use super::inherited::ListenAddress;

/// A process that listens there, or keeps other processes from listening there, as `name (pid 123)`, where it can be known.
pub(super) fn of(place: &ListenAddress) -> Option<String> {
    let inodes = match place {
        ListenAddress::Tcp(address) => {
            let read = |table| fs::read_to_string(table).unwrap_or_default();
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(read);
            tcp_inodes(&tables.concat(), *address)
        }
        ListenAddress::Unix(path) => {
            let table = fs::read("/proc/net/unix").unwrap_or_default();
            unix_inodes(&table, &spellings(path))
        }
    };
    inodes.into_iter().find_map(process_with)
}

/// The inodes of the listeners that keep others from this address; those on exactly this one come first.
fn tcp_inodes(table: &str, asked: SocketAddr) -> Vec<u64> {
    let listening = table.lines().filter_map(TcpRow::parse);
    let listening = listening.filter(TcpRow::is_listening);
    let listening = listening.filter_map(|row| Some((row.local()?, row.inode()?)));
    let (exact, wider): (Vec<_>, Vec<_>) = listening
        .filter(|(held, _)| are_at_odds(asked, *held))
        .partition(|(held, _)| held.ip().to_canonical() == asked.ip().to_canonical());
    exact
        .into_iter()
        .chain(wider)
        .map(|(_, inode)| inode)
        .collect()
}

/// Whether two sockets cannot listen on these addresses at once. Every address of a port is one with its wildcard, and
/// that of IPv6 includes IPv4 unless IPV6_V6ONLY is set, which the table does not say.
fn are_at_odds(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, of_other) = (one.ip().to_canonical(), other.ip().to_canonical());
    let is_all = |ip: IpAddr| ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let same_family = ip.is_ipv4() == of_other.is_ipv4();
    let has_wildcard = ip.is_unspecified() || of_other.is_unspecified();
    one.port() == other.port()
        && (ip == of_other || is_all(ip) || is_all(of_other) || (same_family && has_wildcard))
}

/// The path as it may have been given to the kernel by the other process.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let others = [std::path::absolute(path), fs::canonicalize(path)];
    let others = others.into_iter().flatten();
    std::iter::once(path.to_owned()).chain(others).collect()
}

/// The inodes of the sockets that listen on one of these paths, or are bound to it and will.
fn unix_inodes(table: &[u8], paths: &[PathBuf]) -> Vec<u64> {
    let rows = table
        .split(|byte| *byte == b'\n')
        .filter_map(UnixRow::parse);
    let asked = |row: &UnixRow<'_>| {
        let is_here = |path: &PathBuf| path.as_os_str().as_encoded_bytes() == row.path;
        !row.is_connected && paths.iter().any(is_here)
    };
    rows.filter(asked).map(|row| row.inode).collect()
}

/// A process that has this socket open.
fn process_with(inode: u64) -> Option<String> {
    let has_it = |pid: &u32| sockets_of(&pid.to_string()).any(|(_, open)| open == inode);
    let pid = process::all().find(has_it)?;
    if pid == std::process::id() {
        return Some(format!("another listener of this very process (pid {pid})"));
    }
    let name = process::name(pid).unwrap_or_default();
    Some(format!("{name} (pid {pid})"))
}

// The tables are those of a little-endian machine.
#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0 100 0 0 10 0
   1: 0200007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1002 1 0 100 0 0 10 0
   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1003 1 0 100 0 0 10 0
   3: 0300007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1004 1 0 100 0 0 10 0
   4: 0100007F:1F92 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 1005 1 0 100 0 0 10 0
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 2001 1 0 100
   1: 00000000000000000000000000000000:1F93 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 2002 1 0 100
   2: 0000000000000000FFFF00000100007F:1F94 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 2003 1 0 100
";

    fn holders(asked: &str) -> Vec<u64> {
        let asked = asked.parse().expect("an address");
        tcp_inodes(&[TCP, TCP6].concat(), asked)
    }

    #[test]
    fn the_holder_of_an_address_is_not_that_of_its_neighbour() {
        assert_eq!(holders("127.0.0.1:8080"), [1001]);
        assert_eq!(holders("127.0.0.2:8080"), [1002]);
        assert_eq!(holders("[::1]:8080"), [2001]);
        assert_eq!(holders("127.0.0.3:8080"), [0; 0]);
    }

    #[test]
    fn a_wildcard_is_at_odds_with_every_address_of_its_family() {
        assert_eq!(holders("0.0.0.0:8080"), [1001, 1002]);
        assert_eq!(holders("127.0.0.1:8081"), [1003]);
        assert_eq!(
            holders("127.0.0.3:8081"),
            [1004, 1003],
            "the exact one first"
        );
        assert_eq!(holders("[::1]:8081"), [0; 0]);
    }

    #[test]
    fn the_wildcard_of_ipv6_is_at_odds_with_both_families() {
        assert_eq!(holders("[::]:8080"), [1001, 1002, 2001]);
        assert_eq!(holders("127.0.0.1:8083"), [2002]);
        assert_eq!(holders("0.0.0.0:8083"), [2002]);
        assert_eq!(holders("[::1]:8083"), [2002]);
    }

    #[test]
    fn an_ipv4_mapped_address_is_the_ipv4_address() {
        assert_eq!(holders("127.0.0.1:8084"), [2003]);
        assert_eq!(holders("[::ffff:127.0.0.1]:8080"), [1001]);
    }

    #[test]
    fn a_connection_is_no_port_owner() {
        assert_eq!(holders("127.0.0.1:8082"), [0; 0]);
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        let asked = "127.0.0.1:8080".parse().expect("an address");
        let odd = "\n \n0: x\n0: 0100007F:1F90 0:0 0A\n0: 01007F:1F90 0:0 0A 0 0 0 0 0 7\n0: é000007F:1F90 0 0A 0 0 0 0 0 7";
        assert_eq!(tcp_inodes(odd, asked), [0; 0]);
        assert_eq!(unix_inodes(odd.as_bytes(), &["/run/x".into()]), [0; 0]);
    }

    const UNIX: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01  3001 /run/web.sock
0000000000000000: 00000003 00000000 00000000 0001 03  3002 /run/web.sock
0000000000000000: 00000003 00000000 00000000 0001 03  3003
0000000000000000: 00000002 00000000 00010000 0001 01 123456 /run/with blanks  in.sock
0000000000000000: 00000002 00000000 00010000 0001 01  3005 @abstract
";

    #[test]
    fn the_owner_of_a_path_is_the_process_that_listens_there() {
        let holders = |path: &str| unix_inodes(UNIX.as_bytes(), &[path.into()]);
        assert_eq!(holders("/run/web.sock"), [3001]);
        assert_eq!(holders("/run/with blanks  in.sock"), [123_456]);
        assert_eq!(holders("/run/web"), [0; 0]);
        assert_eq!(holders(""), [0; 0]);
    }
}
