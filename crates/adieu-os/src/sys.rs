//! The system calls that the standard library lacks: the one file of this crate with `unsafe`.
#![allow(unsafe_code)]

/// Has a socket belong to the interface of this number.
#[cfg(target_os = "linux")]
pub(crate) fn bind_to_interface(
    socket: std::os::fd::BorrowedFd<'_>,
    number: libc::c_int,
) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    let size = libc::socklen_t::try_from(size_of_val(&number)).unwrap_or(4);
    // SAFETY: the descriptor is open for the call, and the value is a live integer of the size given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BINDTOIFINDEX,
            (&raw const number).cast(),
            size,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
