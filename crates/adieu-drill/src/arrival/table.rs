//! The kernel's table of all TCP connections, as text: for where it does not answer questions about one of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Arrival, End, Sent};

/// Where each of these requests to this port is now.
pub(super) async fn look(port: u16, sent: &[Sent]) -> Vec<Arrival> {
    let mut table = String::new();
    for name in ["/proc/net/tcp", "/proc/net/tcp6"] {
        table.push_str(&tokio::fs::read_to_string(name).await.unwrap_or_default());
    }
    find(&table, port, sent)
}

fn find(table: &str, port: u16, sent: &[Sent]) -> Vec<Arrival> {
    let mut found = vec![Arrival::Unknown; sent.len()];
    for line in table.lines() {
        let Some((_, peer, end)) = parse(line).filter(|(local, ..)| *local == port) else {
            continue;
        };
        for (one, found) in sent.iter().zip(&mut found) {
            if one.from == Some(peer) {
                *found = end.arrival(one.bytes);
            }
        }
    }
    found
}

/// The server's end of a connection, and whom it belongs to:
/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`
fn parse(line: &str) -> Option<(u16, SocketAddr, End)> {
    let mut fields = line.split_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let peer = address(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let (_, unread) = fields.next()?.split_once(':')?;
    let inode = fields.nth(4)?;
    let end = End {
        state,
        unread: u64::from_str_radix(unread, 16).ok()?,
        accepted: inode != "0",
    };
    Some((local.port(), peer, end))
}

/// `0100007F:1F90`; the bytes of an address are in the order of the network within words in the order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
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
    // A listener for both has clients with old addresses in the table of the new ones.
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_line_of_the_table_is_left_out() {
        let sent = [Sent {
            from: "127.0.0.1:50000".parse().ok(),
            bytes: 9,
        }];
        let line = "   7: 0100007F:1F90 0100007F:C350 01 00000000:00000009 00:00000000 00000000     0        0 0 1 x\n";
        for (table, expected) in [
            (line.to_owned(), Arrival::Queued),
            (line[..40].to_owned(), Arrival::Unknown),
            (line.replace("C350", "C3"), Arrival::Unknown),
            (line.replace(" 01 ", " 06 "), Arrival::Unknown),
            (line.replace("0100007F", "é"), Arrival::Unknown),
            (String::new(), Arrival::Unknown),
        ] {
            assert_eq!(find(&table, 0x1f90, &sent), [expected], "{table}");
        }
    }
}
