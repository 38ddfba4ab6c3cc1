//! Questions about one TCP connection each, over netlink: `sock_diag(7)`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::{Arrival, Sent, ServerEnd};

/// The kernel's numbers of what is asked and answered, `linux/sock_diag.h` and `linux/netlink.h`.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`: as a rule that there is no such connection.
const ERROR: u16 = 2;
const TCP: u8 = 6;

/// Where each of these requests to this server is now.
///
/// # Errors
///
/// If the kernel cannot be asked.
pub(super) fn look(server: SocketAddr, sent: &[Sent]) -> io::Result<Vec<Arrival>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let mut found = Vec::new();
    for one in sent {
        let Some(client) = one.from else {
            found.push(Arrival::Unknown);
            continue;
        };
        let question = question(server, client);
        sendto(
            &socket,
            &question,
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;
        let mut answer = [0; 1_024];
        // The kernel has answered before the question is sent; nothing is waited for.
        let (count, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
        found.push(match parse(&answer[..count]) {
            Some(end) => end.arrival(one.bytes),
            None => Arrival::Unknown,
        });
    }
    Ok(found)
}

/// `nlmsghdr` and `inet_diag_req_v2`, with the server's end as the source.
fn question(server: SocketAddr, client: SocketAddr) -> Vec<u8> {
    let family = match server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let mut bytes = Vec::with_capacity(72);
    bytes.extend(72_u32.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    // In any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(server.port().to_be_bytes());
    bytes.extend(client.port().to_be_bytes());
    for address in [server, client] {
        match address.ip() {
            IpAddr::V4(ip) => bytes.extend([&ip.octets()[..], &[0; 12]].concat()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    // On any interface, and without a cookie of an earlier answer.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// `nlmsghdr` and `inet_diag_msg`.
fn parse(answer: &[u8]) -> Option<ServerEnd> {
    let word = |at: usize| {
        let bytes = answer.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind == ERROR {
        return None;
    }
    Some(ServerEnd {
        state: *answer.get(17)?,
        unread: word(72)?.into(),
        accepted: word(84)? != 0,
    })
}
