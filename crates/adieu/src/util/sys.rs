//! The system calls that the standard library lacks. The only place with `unsafe`, with `sys/signals.rs` and `sys/messages.rs`.
#![allow(unsafe_code)]

use std::time::Duration;

/// Ends the process at once: no destructor, no `atexit` handler, nothing that could hang.
pub(crate) fn exit_now(code: u8) -> ! {
    #[cfg(unix)]
    // SAFETY: `_exit` takes an integer, touches no memory of ours and does not return.
    unsafe {
        libc::_exit(i32::from(code))
    }
    // `ExitProcess`, which the standard library calls, asks every library first, and waits for a lock that a thread
    // may have held when it was ended.
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};
        // SAFETY: the handle of the process itself is always valid, and the rest is an integer.
        unsafe { TerminateProcess(GetCurrentProcess(), u32::from(code)) };
        // It does not come back.
        std::process::abort()
    }
}

/// Monotonic time at the kernel's tick (some milliseconds), for a few nanoseconds a call.
#[inline]
pub(crate) fn coarse_now() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a live timespec of the right type; the call writes it and keeps nothing.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::LazyLock;
        use std::time::Instant;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// The clock that systemd reads: monotonic, since the machine has started.
#[cfg(unix)]
pub(crate) fn monotonic_now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec of the right type; the call writes it and keeps nothing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Reads what has come in on a socket into the room of the buffer: how much, 0 at its end.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn receive(
    socket: std::os::fd::BorrowedFd<'_>,
    buffer: &mut tokio::io::ReadBuf<'_>,
) -> std::io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: nothing is taken out of the room, which may never have been written to.
    let room = unsafe { buffer.unfilled_mut() };
    // SAFETY: the descriptor is open for the call, which writes to that room alone and no more than fits.
    let read = unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
    let count = usize::try_from(read).map_err(|_| std::io::Error::last_os_error())?;
    // SAFETY: the kernel has written so many bytes.
    unsafe { buffer.assume_init(count) };
    buffer.advance(count);
    Ok(count)
}

/// The user that this process makes files as.
#[cfg(any(
    all(unix, feature = "state"),
    all(target_os = "linux", feature = "net")
))]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing, writes nothing, and always succeeds.
    unsafe { libc::geteuid() }
}

/// Whether another process has this file open, which was opened here for writing; true also where that cannot be known.
///
/// The kernel lends a file to one writer only while no other process has it. A process that opened it during that moment
/// would make the kernel send us a signal: one that is ignored unless asked for, and not the usual one, which kills.
#[cfg(all(target_os = "linux", feature = "state"))]
pub(crate) fn is_open_elsewhere(file: &std::fs::File) -> bool {
    use std::os::fd::AsRawFd;
    const F_SETSIG: libc::c_int = 10;
    let file = file.as_raw_fd();
    // SAFETY: the descriptor is open for the calls, which take integers.
    unsafe {
        let lent = libc::fcntl(file, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) == 0;
        !(lent && libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK) == 0)
    }
}

/// How many bytes written to a socket its peer has not acknowledged yet; `None` where that cannot be known.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn unacknowledged(socket: std::os::fd::BorrowedFd<'_>) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open for the call, which writes one integer to where the pointer leads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    u32::try_from(count).ok().filter(|_| done == 0)
}

/// How many bytes of a socket are there to be read; `None` where that cannot be known.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn unread(socket: std::os::fd::BorrowedFd<'_>) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open for the call, which writes one integer to where the pointer leads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    u64::try_from(count).ok().filter(|_| done == 0)
}

/// Which of these events of a socket are so at this moment, by `poll`.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn events(socket: std::os::fd::BorrowedFd<'_>, events: libc::c_short) -> libc::c_short {
    use std::os::fd::AsRawFd;
    let mut asked = libc::pollfd {
        fd: socket.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: the descriptor is open for the call, which reads and writes the one entry it is given, and does not wait.
    let count = unsafe { libc::poll(&raw mut asked, 1, 0) };
    if count == 1 { asked.revents } else { 0 }
}

/// The soft and the hard limit of open descriptors, after the soft one was set if there is a new one. `None` if the
/// system does not say, or refuses.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn descriptor_limits(soft: Option<libc::rlim_t>) -> Option<[libc::rlim_t; 2]> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live structure of the right type, which one call writes and the other reads.
    let done = unsafe {
        let mut done = libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits);
        if let Some(soft) = soft.filter(|_| done == 0) {
            limits.rlim_cur = soft;
            done = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits);
        }
        done
    };
    (done == 0).then_some([limits.rlim_cur, limits.rlim_max])
}

/// Takes over a descriptor that came with the process, and keeps it from the children.
///
/// For one that the parent process has said is meant for it. A number that is named twice is an error.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn adopt(descriptor: std::os::fd::RawFd) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{FromRawFd, RawFd};
    use std::sync::{Mutex, PoisonError};
    static ADOPTED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());
    let mut adopted = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner);
    if adopted.contains(&descriptor) {
        return Err(std::io::Error::other("it is named twice"));
    }
    // SAFETY: the call takes two integers and an option; on a number that is not open it fails, and that is seen.
    let done = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    if done == -1 {
        return Err(std::io::Error::last_os_error());
    }
    adopted.push(descriptor);
    // SAFETY: it is open, the parent process gave it to this one, and the list above lets no second owner have it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
}

/// Whether this number is an open descriptor.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn is_open(descriptor: std::os::fd::RawFd) -> bool {
    // SAFETY: the call takes two integers; on a number that is not open it fails.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
}

/// Makes a descriptor stand for a copy of `by`, in one step: no other thread is given its number meanwhile.
#[cfg(all(target_os = "linux", feature = "admin"))]
pub(crate) fn replace(
    descriptor: &std::os::fd::OwnedFd,
    by: std::os::fd::BorrowedFd<'_>,
) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let (by, number) = (by.as_raw_fd(), descriptor.as_raw_fd());
    // SAFETY: both are open for the call, which takes integers; the owner of the second one owns the copy afterwards.
    match unsafe { libc::dup3(by, number, libc::O_CLOEXEC) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Lets these descriptors stay open in the process that the command starts, under the same numbers.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn keep_open(command: &mut std::process::Command, descriptors: Vec<std::os::fd::RawFd>) {
    use std::os::unix::process::CommandExt;
    let keep = move || {
        for descriptor in &descriptors {
            // SAFETY: the call takes integers, and is async-signal-safe; a number that is not open is an error.
            if unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) } == -1 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may be done. It reads a list that was made before,
    // calls `fcntl`, and makes an error out of a number, without allocating.
    unsafe { command.pre_exec(keep) };
}

/// Sends a signal to a child that is not reaped, so that its number is its own.
#[cfg(all(unix, feature = "net"))]
fn send(pid: u32, signal: libc::c_int) {
    if let Ok(pid @ 1..) = libc::pid_t::try_from(pid) {
        // SAFETY: the call takes two integers.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Asks a child that is not reaped to end.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn terminate(pid: u32) {
    send(pid, libc::SIGTERM);
}

/// Ends a child that is not reaped.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn kill(pid: u32) {
    send(pid, libc::SIGKILL);
}

/// Waits until a child has ended, and does not reap it.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn await_end(pid: u32) {
    loop {
        // SAFETY: the pointer is to a live siginfo, for which all-zero is valid; the call writes it and keeps nothing.
        let done = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid,
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        // One that is not a child any more has ended too.
        if done == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Waits until a process has ended, also one that is not a child of this one. It may have ended before the call.
#[cfg(all(target_os = "linux", feature = "net"))]
pub(crate) fn await_any_end(pid: u32) -> std::io::Result<()> {
    use std::os::fd::{FromRawFd, OwnedFd};
    let number = libc::pid_t::try_from(pid).map_err(std::io::Error::other)?;
    // SAFETY: the call takes two integers and gives a new descriptor, which nothing else owns.
    let process = unsafe {
        match libc::syscall(libc::SYS_pidfd_open, number, 0) {
            -1 => {
                let error = std::io::Error::last_os_error();
                // Its parent process has already waited for it.
                return match error.raw_os_error() {
                    Some(libc::ESRCH) => Ok(()),
                    _ => Err(error),
                };
            }
            descriptor => OwnedFd::from_raw_fd(descriptor as libc::c_int),
        }
    };
    loop {
        let mut waiting = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&process),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which lives for the call.
        if unsafe { libc::poll(&raw mut waiting, 1, -1) } == 1 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A child that does nothing. Killed and reaped when dropped, and killed by the kernel when the thread that made it ends.
#[cfg(all(target_os = "linux", feature = "net"))]
pub(crate) struct IdleChild(libc::pid_t);

#[cfg(all(target_os = "linux", feature = "net"))]
impl IdleChild {
    pub(crate) fn start() -> std::io::Result<Self> {
        // SAFETY: the sets live for the calls. The child of a process with threads makes only calls that are safe in a
        // signal handler, and never returns from here. It has every signal blocked, so that none reaches our handlers
        // in it, which would write into our own pipe.
        let child = unsafe {
            let mut every: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut every);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before);
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            child
        };
        match child {
            -1 => Err(std::io::Error::last_os_error()),
            child => Ok(Self(child)),
        }
    }

    pub(crate) fn id(&self) -> libc::pid_t {
        self.0
    }
}

#[cfg(all(target_os = "linux", feature = "net"))]
impl Drop for IdleChild {
    fn drop(&mut self) {
        // SAFETY: it is our child and not reaped, so the number is its own; the status is not asked for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Removes variables from the environment, so that children do not inherit them. Where the process has other threads
/// they stay: one of them may be reading the environment in C, which knows no lock for it. So the reader of a variable
/// must not depend on its removal.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn remove_variables(names: &[&str]) {
    let is_alone = cfg!(target_os = "linux")
        && std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    for name in names.iter().filter(|_| is_alone) {
        // SAFETY: this is the only thread of the process, and none is made meanwhile.
        unsafe { std::env::remove_var(name) };
    }
}

/// A descriptor whose readiness to be read the runtime watches.
#[cfg(all(target_os = "linux", any(feature = "schedule", feature = "watch")))]
pub(crate) fn watch_readable(
    descriptor: std::os::fd::OwnedFd,
) -> std::io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    use tokio::io::{Interest, unix::AsyncFd};
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as it lives, and it lives inside the `AsyncFd`, which
    // takes it off the runtime's list before it is closed.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.map_err(Into::into)
}

#[cfg(all(target_os = "linux", feature = "net"))]
mod messages;
#[cfg(unix)]
mod signals;

#[cfg(all(target_os = "linux", feature = "net"))]
pub(crate) use messages::{ReceivedMessage, receive_message, send_message};

#[cfg(unix)]
pub(crate) use signals::{
    Disposition, Mask, NO_SIGNAL, SignalOrigin, install, is_ignored, overflowed, raise, read_byte,
    restore,
};

#[cfg(all(test, target_os = "linux", feature = "net"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_waited_for_before_has_ended() {
        let child = IdleChild::start().expect("a child process");
        let pid = u32::try_from(child.id()).expect("a process id");
        drop(child);
        await_any_end(pid).expect("it has ended");
    }

    /// Two owners would close each other's file.
    #[cfg(feature = "net")]
    #[test]
    fn a_descriptor_that_is_named_twice_is_adopted_once() {
        use std::os::fd::IntoRawFd;
        let null = std::fs::File::open("/dev/null").expect("a file");
        let number = null.into_raw_fd();
        let _owner = adopt(number).expect("it is open");
        let error = adopt(number).expect_err("it has an owner");
        assert_eq!(error.to_string(), "it is named twice");
    }
}
