//! Where a request is that a client has sent whole: the kernel tells it.
//!
//! A connection that the program has not accepted yet has no inode. Bytes that it has not read are in the receive queue
//! of its end. So nothing has to be asked of the program, which may be busy with the very requests.

#[cfg(target_os = "linux")]
mod diag;
mod table;

use std::net::SocketAddr;

/// Where a request is that was sent whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The program has read it, or has begun to.
    Read,
    /// The program has accepted the connection and read nothing.
    Accepted,
    /// The kernel has accepted the connection; the program has not.
    Queued,
    /// The kernel does not tell: the program is in another network namespace, or this is not Linux.
    Unknown,
}

impl Arrival {
    /// To follow `at the signal it`.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Read => "had been read by the program",
            Self::Accepted => "had been accepted by the program and not read",
            Self::Queued => "waited in the accept queue",
            Self::Unknown => "had been sent",
        }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// The client's end of the connection.
    pub(crate) from: Option<SocketAddr>,
    /// How many bytes it has.
    pub(crate) bytes: u64,
}

/// Where each of these requests to this server is now.
pub(crate) async fn look(server: SocketAddr, sent: &[Sent]) -> Vec<Arrival> {
    // One connection costs the same however many the machine has.
    #[cfg(target_os = "linux")]
    if let Ok(seen) = diag::look(server, sent) {
        return seen;
    }
    table::look(server.port(), sent).await
}

/// The server's end of a connection.
#[derive(Debug)]
struct ServerEnd {
    state: u8,
    unread: u64,
    accepted: bool,
}

impl ServerEnd {
    /// Established, and closed by the client alone. In any other state it says nothing about what was read.
    const OPEN: [u8; 2] = [1, 8];

    fn arrival(&self, bytes: u64) -> Arrival {
        match (self.accepted, self.unread < bytes) {
            _ if !Self::OPEN.contains(&self.state) => Arrival::Unknown,
            (false, _) => Arrival::Queued,
            (true, false) => Arrival::Accepted,
            (true, true) => Arrival::Read,
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The kernel of this machine is asked about connections whose state is known.
    #[tokio::test]
    async fn a_request_is_queued_then_accepted_then_read() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let sent = [Sent {
                from: client.local_addr().ok(),
                bytes: 18,
            }];
            let server: SocketAddr = ([127, 0, 0, 1], port).into();
            let by = async || {
                let ways = [
                    look(server, &sent).await,
                    diag::look(server, &sent).expect("the kernel tells"),
                    table::look(port, &sent).await,
                ];
                assert!(ways.iter().all(|way| *way == ways[0]), "{ways:?}");
                ways[0][0]
            };
            assert_eq!(by().await, Arrival::Queued, "{address}");
            let (mut server_end, _) = listener.accept().unwrap();
            assert_eq!(by().await, Arrival::Accepted, "{address}");
            server_end.read_exact(&mut [0; 4]).unwrap();
            assert_eq!(by().await, Arrival::Read, "{address}");
            server_end.read_exact(&mut [0; 14]).unwrap();
            assert_eq!(by().await, Arrival::Read, "{address}");
            drop(server_end);
            assert_eq!(by().await, Arrival::Unknown, "{address}");
        }
    }
}
