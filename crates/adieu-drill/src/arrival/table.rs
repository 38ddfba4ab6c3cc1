//! The kernel's table of all TCP connections, as text: for where it does not answer questions about one of them.

use std::net::SocketAddr;

use adieu_os::socket::TcpRow;

use super::{Arrival, Sent, ServerEnd};

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

/// The port of the server, the client, and the server's end of the connection between them.
fn parse(line: &str) -> Option<(u16, SocketAddr, ServerEnd)> {
    let row = TcpRow::parse(line)?;
    let peer = row.remote()?;
    let end = ServerEnd {
        state: row.state(),
        unread: row.receive_queue()?.into(),
        accepted: row.inode()? != 0,
    };
    // A listener for both families has clients with IPv4 addresses in the table of IPv6.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    Some((row.local_port()?, peer, end))
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
