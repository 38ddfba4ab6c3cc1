//! The private channel of the two processes: a pair of sockets that keeps messages apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::message::{MAX_MESSAGE, Message, Torn};
use crate::util::sys;

/// What the kernel is asked to hold on its way. It grants less where `net.core.wmem_max` is lower.
const QUEUE: usize = 4 * MAX_MESSAGE;

/// One end of the channel.
pub(super) struct Channel {
    // Only a name for a socket that keeps messages apart: it is connected, and of the type SEQPACKET.
    socket: UnixDatagram,
}

/// What has come over the channel.
pub(super) struct Received {
    pub(super) message: Result<Message, Torn>,
    pub(super) descriptor: Option<OwnedFd>,
}

/// Both ends, blocking. No child inherits either.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (here, there) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
    for end in [&here, &there] {
        // Larger than the default only for many large heads at a time.
        let _ = end.set_send_buffer_size(QUEUE);
        // From the first message on the kernel names its sender.
        end.set_passcred(true)?;
    }
    Ok((here.into(), there.into()))
}

impl Channel {
    /// Only inside of the runtime.
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(end);
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixDatagram::from_std(socket)?,
        })
    }

    /// Sends all of a message or nothing. Cancel-safe: dropped before it is ready, nothing was sent.
    pub(super) async fn send(
        &self,
        message: Message,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let bytes = message.encode()?;
        self.socket
            .async_io(Interest::WRITABLE, || {
                sys::send_message(self.socket.as_fd(), &bytes, descriptor)
            })
            .await
    }

    /// As [`Channel::send`], without waiting: an error if there is no room.
    pub(super) fn send_now(&self, message: Message) -> io::Result<()> {
        sys::send_message(self.socket.as_fd(), &message.encode()?, None)
    }

    /// The next message from this process; `None` at the end of the channel. Cancel-safe.
    ///
    /// A message of any other sender is an error, and so is one that comes with more than a message can have.
    pub(super) async fn receive(
        &self,
        from: u32,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Received>> {
        buffer.resize(MAX_MESSAGE, 0);
        loop {
            let received = self
                .socket
                .async_io(Interest::READABLE, || {
                    sys::receive_message(self.socket.as_fd(), buffer)
                })
                .await;
            match received {
                // The other end was closed with messages of ours in it; what it had sent before is still to be read.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                received => return checked(received?, from, buffer),
            }
        }
    }

    /// As [`Channel::receive`], of what is there at this moment.
    pub(super) fn receive_now(&self, from: u32) -> io::Result<Option<Received>> {
        let mut buffer = vec![0; MAX_MESSAGE];
        let received = sys::receive_message(self.socket.as_fd(), &mut buffer)?;
        checked(received, from, &buffer)
    }
}

fn checked(
    received: sys::ReceivedMessage,
    from: u32,
    buffer: &[u8],
) -> io::Result<Option<Received>> {
    if received.size == 0 {
        return Ok(None);
    }
    match received.sender {
        Some((pid, user)) if pid == from && user == sys::effective_user() => {}
        Some((pid, user)) if pid == from => {
            let ours = sys::effective_user();
            let why = format!("process {pid} runs as user {user}, and this one as user {ours}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        _ => {
            let why = "a message of a process that has no part in the hand-off";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    let message = match buffer.get(..received.size) {
        Some(bytes) => Message::decode(bytes),
        None => Err(Torn { number: None }),
    };
    // Without its socket an offer is torn: there was no descriptor left to receive it.
    let message = match message {
        Ok(Message::Offer(offer)) if received.descriptor.is_none() => Err(Torn {
            number: Some(offer.number),
        }),
        Ok(_) if !received.is_whole => Err(Torn { number: None }),
        message => message,
    };
    Ok(Some(Received {
        message,
        descriptor: received.descriptor,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILD: u32 = 4_242;

    fn received(sender: Option<(u32, u32)>, is_whole: bool) -> io::Result<Option<Received>> {
        let bytes = Message::Taken(7).encode()?;
        let message = sys::ReceivedMessage {
            size: bytes.len(),
            sender,
            descriptor: None,
            is_whole,
        };
        checked(message, CHILD, &bytes)
    }

    #[test]
    fn a_message_of_the_child_is_read() {
        let ours = sys::effective_user();
        let message = received(Some((CHILD, ours)), true).expect("it is the child's");
        let message = message.map(|received| received.message);
        assert_eq!(message, Some(Ok(Message::Taken(7))));
    }

    #[test]
    fn a_message_of_another_user_names_both() {
        let ours = sys::effective_user();
        let Err(error) = received(Some((CHILD, ours + 1)), true) else {
            panic!("it is another user's");
        };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let expected = format!(
            "process {CHILD} runs as user {}, and this one as user {ours}",
            ours + 1
        );
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_message_of_another_process_is_refused_and_one_without_a_sender_too() {
        let ours = sys::effective_user();
        for sender in [Some((CHILD + 1, ours)), None] {
            let Err(error) = received(sender, true) else {
                panic!("it is not the child's: {sender:?}");
            };
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let why = "a message of a process that has no part in the hand-off";
            assert_eq!(error.to_string(), why);
        }
    }

    #[test]
    fn a_message_that_comes_with_more_than_it_can_have_is_torn() {
        let ours = sys::effective_user();
        let message = received(Some((CHILD, ours)), false).expect("it is the child's");
        let message = message.map(|received| received.message);
        assert_eq!(message, Some(Err(Torn { number: None })));
    }
}
