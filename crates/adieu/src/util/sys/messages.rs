//! Messages that carry a file descriptor from one process to another.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const DESCRIPTOR: usize = size_of::<libc::c_int>();
/// So many descriptors of one message are received; one that comes with more is not whole.
const MAX_DESCRIPTORS: usize = 4;

/// Of the alignment that a header needs, with room for the sender and the descriptors.
type Control = [u64; 16];

const fn size(bytes: usize) -> libc::c_uint {
    bytes as libc::c_uint
}

/// Sends a message, with a descriptor if there is one.
pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    text: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: text.as_ptr().cast_mut().cast(),
        iov_len: text.len(),
    };
    let mut control: Control = [0; 16];
    // SAFETY: all that the message points to lives for the call; the buffer is larger than one header with one
    // descriptor, so that the first header is inside of it.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(descriptor) = descriptor {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size(DESCRIPTOR)) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size(DESCRIPTOR)) as _;
            libc::CMSG_DATA(header)
                .cast::<libc::c_int>()
                .write_unaligned(descriptor.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What came with a message.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// How much of the buffer it fills; 0 at the end of the channel.
    pub(crate) size: usize,
    /// The only descriptor, which no child inherits.
    pub(crate) descriptor: Option<OwnedFd>,
    /// The process and the user that the kernel names as the sender.
    pub(crate) sender: Option<(u32, u32)>,
    /// Nothing of it was cut off, and it had one descriptor at most.
    pub(crate) is_whole: bool,
}

/// Receives a message. Every descriptor that came with it is either in the result or closed.
pub(crate) fn receive_message(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<ReceivedMessage> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control: Control = [0; 16];
    let mut descriptors = Vec::with_capacity(1);
    let mut sender = None;
    // SAFETY: all that the message points to lives for the call, which writes no more than the lengths given. The headers
    // are walked as the kernel has written them; each descriptor in them was made for this process by this call, and
    // gets its only owner here.
    let (received, flags) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = (libc::CMSG_SPACE(size(size_of::<libc::ucred>()))
            + libc::CMSG_SPACE(size(DESCRIPTOR * MAX_DESCRIPTORS)))
            as _;
        let received = libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT,
        );
        if received >= 0 {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                let data = libc::CMSG_DATA(header);
                let bytes =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                match ((*header).cmsg_level, (*header).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                        for index in 0..bytes / DESCRIPTOR {
                            let number = data.cast::<libc::c_int>().add(index).read_unaligned();
                            descriptors.push(OwnedFd::from_raw_fd(number));
                        }
                    }
                    (libc::SOL_SOCKET, libc::SCM_CREDENTIALS)
                        if bytes >= size_of::<libc::ucred>() =>
                    {
                        let named = data.cast::<libc::ucred>().read_unaligned();
                        sender = u32::try_from(named.pid).ok().map(|pid| (pid, named.uid));
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        (received, message.msg_flags)
    };
    let size = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let is_whole = flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0 && descriptors.len() <= 1;
    Ok(ReceivedMessage {
        size,
        descriptor: descriptors.pop().filter(|_| is_whole),
        sender,
        is_whole,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn pair() -> (Socket, Socket) {
        let pair = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("two sockets");
        pair.1.set_passcred(true).expect("it names the sender");
        pair
    }

    #[test]
    fn a_descriptor_arrives_with_its_message_and_its_sender_and_no_child_inherits_it() {
        let (here, there) = pair();
        let (mut reader, writer) = io::pipe().expect("a pipe");
        send_message(here.as_fd(), b"hello", Some(writer.as_fd())).expect("it is sent");
        drop(writer);
        let mut buffer = [0; 16];
        let got = receive_message(there.as_fd(), &mut buffer).expect("it came");
        assert_eq!((got.size, &buffer[..5]), (5, &b"hello"[..]));
        assert!(got.is_whole);
        assert_eq!(got.sender.map(|(pid, _)| pid), Some(std::process::id()));
        let descriptor = got.descriptor.expect("its descriptor");
        // SAFETY: the call takes two integers.
        let flags = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        let mut writer = io::PipeWriter::from(descriptor);
        writer.write_all(b"x").expect("it is the pipe");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("its end");
        assert_eq!(text, "x");
    }

    #[test]
    fn what_does_not_fit_is_not_whole_and_its_descriptor_is_closed() {
        let (here, there) = pair();
        let (mut reader, writer) = io::pipe().expect("a pipe");
        send_message(here.as_fd(), b"too long", Some(writer.as_fd())).expect("it is sent");
        drop(writer);
        let got = receive_message(there.as_fd(), &mut [0; 3]).expect("some of it came");
        assert!(!got.is_whole);
        assert!(got.descriptor.is_none());
        // Ends only if no copy of the other end is open.
        assert_eq!(reader.read(&mut [0; 1]).expect("its end"), 0);
    }

    #[test]
    fn the_end_of_the_channel_has_no_bytes() {
        let (here, there) = pair();
        drop(here);
        let got = receive_message(there.as_fd(), &mut [0; 3]).expect("the end");
        assert_eq!(got.size, 0);
    }
}
