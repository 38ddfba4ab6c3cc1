//! Whether clients are in the middle of a handshake with a listener, asked of the kernel (`sock_diag(7)`).
//!
//! A listener that refuses new connections gets no new handshakes, and those begun become connections in its accept queue. So once the
//! kernel knows of none, and the queue is empty after that, no connection is still to come, however long a round trip
//! to a client takes.
//!
//! The kernel moves a handshake to the accept queue before it takes it off the list that is read here, so none can be
//! missed in between.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Asks about one listener.
#[derive(Debug)]
pub(super) struct Handshakes {
    kernel: Socket,
    port: u16,
    /// Of the listener, and of every handshake with it, also of a client with IPv4 at a listener of IPv6.
    family: u8,
    /// Tells our listener from others of its port, and from those of another network namespace.
    inode: u32,
    /// How many there were at the last look.
    left: usize,
    /// That look was not answered with yet.
    is_fresh: bool,
}

/// The answer does not wait for anything; this only keeps a broken kernel from holding up the stop.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// `linux/sock_diag.h`, `linux/netlink.h`, `linux/inet_diag.h`, `net/tcp_states.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST: u16 = 0x001;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const SYN_RECV: u8 = 3;
const LISTEN: u8 = 10;
/// The header of a message, and a request behind one.
const HEADER: usize = 16;
const QUESTION: usize = HEADER + 56;
/// Where fields of an answer are: `struct inet_diag_msg`.
const STATE: usize = 1;
const ACCEPT_QUEUE: usize = 56;
const BACKLOG: usize = 60;
const INODE: usize = 68;
const ANSWER_SIZE: usize = 72;

/// What the kernel says of the sockets of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PortState {
    has_listener: bool,
    /// More than half of the accept queue was taken.
    is_crowded: bool,
    handshakes: usize,
}

impl Handshakes {
    /// For this listener, which refuses new connections, before its accept queue is emptied. An error says why the kernel
    /// cannot be asked.
    pub(super) fn of(listener: &tokio::net::TcpListener) -> io::Result<Self> {
        // Such handshakes leave no trace in the kernel until they are complete.
        let cookies = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies");
        if cookies.is_ok_and(|mode| mode.trim() == "2") {
            return Err(io::Error::other("every handshake is a SYN cookie"));
        }
        let kernel = Socket::new(
            Domain::from(libc::AF_NETLINK),
            Type::DGRAM,
            Some(Protocol::from(libc::NETLINK_INET_DIAG)),
        )?;
        kernel.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let file = File::from(listener.as_fd().try_clone_to_owned()?);
        let address = SockRef::from(listener).local_addr()?;
        let port = address.as_socket().map(|address| address.port());
        let domain = SockRef::from(listener).domain()?;
        let mut handshakes = Self {
            kernel,
            port: port.ok_or(io::ErrorKind::Unsupported)?,
            // The kernel cuts it in the same way.
            inode: file.metadata()?.ino() as u32,
            family: u8::try_from(i32::from(domain)).map_err(|_| io::ErrorKind::Unsupported)?,
            left: 0,
            is_fresh: true,
        };
        let listed = handshakes.ask()?;
        handshakes.left = listed.handshakes;
        // A queue that overflows makes the kernel send cookies.
        if listed.is_crowded {
            return Err(io::Error::other("the accept queue was nearly full"));
        }
        Ok(handshakes)
    }

    /// Whether any has begun and is not in the accept queue yet.
    ///
    /// Each look goes through all connections of the machine, which takes milliseconds where there are many. So the first
    /// answer is that of the look at the beginning, and once there were none the kernel is not asked again: no new
    /// ones begin.
    pub(super) fn are_under_way(&mut self) -> io::Result<bool> {
        if !std::mem::take(&mut self.is_fresh) && self.left > 0 {
            self.left = self.ask()?.handshakes;
        }
        Ok(self.left > 0)
    }

    fn ask(&self) -> io::Result<PortState> {
        let mut listed = PortState::default();
        self.kernel.send(&question(self.family, self.port))?;
        let mut buffer = vec![0; 32 * 1_024];
        loop {
            let count = (&self.kernel).read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.read(&buffer[..count], &mut listed)? {
                break;
            }
        }
        if listed.has_listener {
            Ok(listed)
        } else {
            Err(io::Error::other(
                "the listener is in another network namespace",
            ))
        }
    }

    /// Reads the messages of one datagram; whether the answer ends with it.
    fn read(&self, mut bytes: &[u8], listed: &mut PortState) -> io::Result<bool> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        while !bytes.is_empty() {
            let length = usize::try_from(word(bytes, 0)?).unwrap_or(usize::MAX);
            let kind = u16::from_ne_bytes([
                *bytes.get(4).ok_or_else(broken)?,
                *bytes.get(5).ok_or_else(broken)?,
            ]);
            let message = bytes.get(HEADER..length).ok_or_else(broken)?;
            match kind {
                DONE => return Ok(true),
                ERROR => {
                    let code = i32::from_ne_bytes(word(message, 0)?.to_ne_bytes());
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                _ if message.len() < ANSWER_SIZE => return Err(broken()),
                _ => match message[STATE] {
                    SYN_RECV => listed.handshakes += 1,
                    LISTEN if word(message, INODE)? == self.inode => {
                        listed.has_listener = true;
                        let (queued, backlog) =
                            (word(message, ACCEPT_QUEUE)?, word(message, BACKLOG)?);
                        listed.is_crowded |= queued > backlog / 2;
                    }
                    _ => {}
                },
            }
            // Each begins at a multiple of four.
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// Asks for the listeners and the handshakes of this local port.
fn question(family: u8, port: u16) -> [u8; QUESTION] {
    let mut question = [0; QUESTION];
    let length = u32::try_from(QUESTION).unwrap_or_default();
    question[..4].copy_from_slice(&length.to_ne_bytes());
    question[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    let states = 1_u32 << SYN_RECV | 1 << LISTEN;
    let tcp = u8::try_from(libc::IPPROTO_TCP).unwrap_or_default();
    question[HEADER] = family;
    question[HEADER + 1] = tcp;
    question[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
    question[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
    question
}

/// Four bytes from here on as a number.
fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_ne_bytes)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + payload.len()).expect("it is short");
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(payload);
        message
    }

    fn socket(state: u8, inode: u32, queued: u32, backlog: u32) -> Vec<u8> {
        let mut socket = [0; ANSWER_SIZE];
        socket[STATE] = state;
        for (at, value) in [(ACCEPT_QUEUE, queued), (BACKLOG, backlog), (INODE, inode)] {
            socket[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        message(SOCK_DIAG_BY_FAMILY, &socket)
    }

    /// After a look that has found so many. Its socket is not the kernel's: asking is an error.
    fn after_a_look(left: usize) -> io::Result<Handshakes> {
        Ok(Handshakes {
            kernel: Socket::new(Domain::IPV4, Type::DGRAM, None)?,
            port: 80,
            family: 2,
            inode: 7,
            left,
            is_fresh: true,
        })
    }

    fn read(datagram: &[u8]) -> io::Result<(bool, PortState)> {
        let handshakes = after_a_look(0)?;
        let mut listed = PortState::default();
        Ok((handshakes.read(datagram, &mut listed)?, listed))
    }

    #[test]
    fn counts_handshakes_and_finds_the_listener_by_its_inode() {
        let datagram = [
            socket(LISTEN, 8, 100, 100),
            socket(SYN_RECV, 0, 0, 0),
            socket(SYN_RECV, 0, 0, 0),
        ];
        let (is_done, listed) = read(&datagram.concat()).expect("it is well-formed");
        assert!(!is_done);
        assert_eq!((listed.handshakes, listed.has_listener), (2, false));
        let datagram = [socket(LISTEN, 7, 60, 100), message(DONE, &[0; 4])];
        let (is_done, listed) = read(&datagram.concat()).expect("it is well-formed");
        assert!(is_done);
        assert_eq!((listed.has_listener, listed.is_crowded), (true, true));
    }

    #[test]
    fn refusals_and_cut_messages_are_errors() {
        let refused = read(&message(ERROR, &(-libc::EPERM).to_ne_bytes()));
        assert_eq!(
            refused.map_err(|error| error.kind()),
            Err(io::ErrorKind::PermissionDenied)
        );
        let whole = socket(LISTEN, 7, 0, 100);
        for end in 1..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes");
        }
        // A length of zero must not be read forever.
        assert!(read(&[0; 64]).is_err());
    }

    #[test]
    fn the_kernel_is_asked_again_only_while_there_are_handshakes() {
        let mut none = after_a_look(0).expect("a socket");
        for _ in 0..2 {
            assert!(!none.are_under_way().expect("it is not asked"));
        }
        let mut some = after_a_look(2).expect("a socket");
        assert!(some.are_under_way().expect("it was asked before"));
        assert!(some.are_under_way().is_err(), "it is asked again");
    }

    #[tokio::test]
    async fn the_kernel_knows_a_listener_and_of_no_handshake_with_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        match Handshakes::of(&listener) {
            Ok(mut handshakes) => {
                assert!(!handshakes.are_under_way().expect("it was asked before"));
            }
            Err(error) => fixture_skip::not_possible(format!("sock_diag: {error}")),
        }
    }
}
