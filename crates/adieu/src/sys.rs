//! The system calls that the standard library lacks. The only file with `unsafe`.
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

/// Hides a listening socket from new connections while handshakes half done still finish into its queue.
///
/// Binds it to an interface that does not exist: the look-up for a new SYN no longer finds the listener, so it
/// is refused at once. Linux checks neither that the interface exists nor, since 5.7, for a privilege; so
/// whoever relies on it tries it out first.
#[cfg(all(target_os = "linux", feature = "net"))]
pub(crate) fn cloak(socket: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    let nowhere: libc::c_int = libc::c_int::MAX;
    let size = libc::socklen_t::try_from(size_of_val(&nowhere)).unwrap_or(4);
    // SAFETY: the descriptor is open for the call, and the value is a live integer of the size given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BINDTOIFINDEX,
            (&raw const nowhere).cast(),
            size,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
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

/// Whether somebody else has this file open, which was opened here for writing; also where that cannot be known.
///
/// The kernel lends a file to one writer only while nobody else has it. Whoever opened it during that moment would make
/// the kernel send a signal: one that is ignored unless asked for, and not the usual one, which kills.
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

/// What the kernel knows of the other end of a connection: whether it has closed its side, and whether it is gone.
#[cfg(all(unix, feature = "http"))]
pub(crate) fn departure(socket: std::os::fd::BorrowedFd<'_>) -> (bool, bool) {
    use std::os::fd::AsRawFd;
    #[cfg(target_os = "linux")]
    const CLOSED: libc::c_short = libc::POLLRDHUP;
    #[cfg(not(target_os = "linux"))]
    const CLOSED: libc::c_short = libc::POLLHUP;
    let mut asked = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: CLOSED,
        revents: 0,
    };
    // SAFETY: the descriptor is open for the call, which reads and writes the one entry it is given, and does not wait.
    let count = unsafe { libc::poll(&raw mut asked, 1, 0) };
    let said = |event| count == 1 && asked.revents & event != 0;
    (said(CLOSED), said(libc::POLLHUP | libc::POLLERR))
}

/// Takes over a descriptor that came with the process, and keeps it from the children.
///
/// To be called once for a descriptor that whoever started the process has said is meant for it.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn adopt(descriptor: std::os::fd::RawFd) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the call takes two integers and an option; on a number that is not open it fails, and that is seen.
    let done = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    if done == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the contract of this function nobody else in this process owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
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
        // One that is no child any more has ended too.
        if done == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Removes variables from the environment, so that children do not inherit them.
///
/// To be called when the service begins, before it has made a thread.
#[cfg(all(unix, feature = "net"))]
pub(crate) fn remove_variables(names: &[&str]) {
    for name in names.iter().filter(|name| std::env::var_os(name).is_some()) {
        // SAFETY: the standard library takes a lock against its own readers; what remains are readers in C on
        // other threads. The service has made none yet, and owns its process from the beginning of `main`.
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

#[cfg(unix)]
pub(crate) use unix::{
    Disposition, Mask, NO_SIGNAL, install, is_ignored, overflowed, raise, read_byte, restore,
};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

    /// What a signal did before we took it.
    pub(crate) struct Disposition(libc::sigaction);

    /// From the handlers to the thread that reads: a byte for each signal, in their order.
    struct Mail {
        /// Where a handler writes. Set once, before the first handler, to a descriptor that is never closed.
        pipe: AtomicI32,
        /// The signals that found the pipe full, which a few hundred fill: a bit for each number from 1 on, of those that
        /// processes sent and of those that were typed. Like the kernel, it has a signal waiting once or not at all.
        overflow: [AtomicU64; 2],
    }

    static MAIL: Mail = Mail::new();

    /// Set in the byte of a signal that was typed at the terminal; signal numbers are smaller.
    const TYPED: u8 = 0x80;

    /// A byte that no signal writes.
    pub(crate) const NO_SIGNAL: u8 = 0;

    impl Mail {
        const fn new() -> Self {
            Self {
                pipe: AtomicI32::new(-1),
                overflow: [const { AtomicU64::new(0) }; 2],
            }
        }

        /// Never waits, and loses nothing. Called from handlers: only what is async-signal-safe.
        fn post(&self, byte: u8) {
            if self.write(byte) {
                return;
            }
            let (number, typed) = read_byte(byte);
            let bit = 1 << (number - 1);
            self.overflow[usize::from(typed)].fetch_or(bit, Ordering::SeqCst);
            // Either there is room by now, and this wakes the reader; or it has yet to read what fills the pipe, and looks
            // at the rest after that.
            self.write(NO_SIGNAL);
        }

        fn write(&self, byte: u8) -> bool {
            let pipe = self.pipe.load(Ordering::Relaxed);
            // SAFETY: `write` is async-signal-safe; the descriptor stays open and does not block, the byte is a local.
            unsafe { libc::write(pipe, (&raw const byte).cast(), 1) == 1 }
        }

        fn overflowed(&self) -> impl Iterator<Item = u8> {
            let waiting = |typed: usize| {
                let bits = self.overflow[typed].swap(0, Ordering::SeqCst);
                let flag = if typed == 1 { TYPED } else { 0 };
                (0..64_u8).filter_map(move |bit| (bits >> bit & 1 == 1).then_some((bit + 1) | flag))
            };
            waiting(0).chain(waiting(1))
        }
    }

    /// Sends a signal to this process.
    pub(crate) fn raise(number: i32) {
        // SAFETY: both calls take and give integers.
        unsafe { libc::kill(libc::getpid(), number) };
    }

    /// The bytes for which there was no room; to be asked for after each look into the pipe.
    pub(crate) fn overflowed() -> impl Iterator<Item = u8> {
        MAIL.overflowed()
    }

    /// The signal's number, and whether it was typed at the terminal.
    pub(crate) const fn read_byte(byte: u8) -> (i32, bool) {
        ((byte & !TYPED) as i32, byte & TYPED != 0)
    }

    /// Whether the kernel sent it by itself, as it does for a key of the terminal. Known on Linux only.
    const fn is_typed(code: libc::c_int) -> bool {
        const SI_KERNEL: libc::c_int = 0x80;
        cfg!(target_os = "linux") && code == SI_KERNEL
    }

    extern "C" fn on_signal(number: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the system passes a pointer to a siginfo that is valid during the call.
        let typed = unsafe { is_typed((*info).si_code) };
        let byte = number.to_le_bytes()[0] | if typed { TYPED } else { 0 };
        // SAFETY: the system's pointer to the thread's own `errno`. It belongs to the interrupted code, so it is put back.
        unsafe {
            #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "l4re"))]
            let errno = libc::__errno_location();
            #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
            let errno = libc::__error();
            #[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "android"))]
            let errno = libc::__errno();
            let saved = *errno;
            MAIL.post(byte);
            *errno = saved;
        }
    }

    fn current(number: i32) -> io::Result<libc::sigaction> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null new action only asks; the old one is written to a place of the right type, and is
        // initialised both by `zeroed` (all-zero is a valid sigaction) and by the call.
        unsafe {
            if libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(action.assume_init())
        }
    }

    /// Whether the parent gave us this signal ignored (`nohup`, a shell's background job).
    pub(crate) fn is_ignored(number: i32) -> bool {
        current(number).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN)
    }

    /// From now on this signal's number arrives as a byte at `pipe`, which is kept open for ever.
    pub(crate) fn install(number: i32, pipe: &'static UnixStream) -> io::Result<Disposition> {
        MAIL.pipe.store(pipe.as_raw_fd(), Ordering::Relaxed);
        let before = current(number)?;
        // SAFETY: all-zero is a valid sigaction with an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        // SAFETY: the handler has the signature that `sa_flags` with SA_SIGINFO asks for and is
        // async-signal-safe; the old action is not asked for.
        if unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Disposition(before))
    }

    /// The signals that a thread does not hear.
    pub(crate) struct Mask(libc::sigset_t);

    impl Mask {
        /// That of the thread that asks.
        pub(crate) fn current() -> Self {
            let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: a null new mask only asks; the old one is written to a place of the right type, which is
            // initialised by the first call already.
            unsafe {
                libc::sigemptyset(mask.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
                Self(mask.assume_init())
            }
        }

        /// Whether it keeps this signal out.
        pub(crate) fn blocks(&self, number: i32) -> bool {
            // SAFETY: only looks at a live set.
            unsafe { libc::sigismember(&raw const self.0, number) == 1 }
        }

        /// From now on this is the mask of the thread that calls, but for these signals, which it hears.
        pub(crate) fn set_without(&self, numbers: Vec<i32>) {
            let mut mask = self.0;
            // SAFETY: changes a live set of our own, which the system copies; a number that is no signal is refused.
            unsafe {
                for number in numbers {
                    libc::sigdelset(&raw mut mask, number);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
            }
        }
    }

    /// Puts back what the signal did before, unless somebody else has taken it since.
    pub(crate) fn restore(number: i32, before: &Disposition) {
        let ours = on_signal as *const () as libc::sighandler_t;
        if current(number).is_ok_and(|action| action.sa_sigaction == ours) {
            // SAFETY: the action was given to us by the system for this signal.
            unsafe { libc::sigaction(number, &raw const before.0, std::ptr::null_mut()) };
        }
    }

    #[cfg(test)]
    mod tests {
        use std::io::Read;

        use super::*;

        #[test]
        fn what_finds_the_pipe_full_is_not_lost() {
            let (mut reader, writer) = UnixStream::pair().unwrap();
            writer.set_nonblocking(true).unwrap();
            reader.set_nonblocking(true).unwrap();
            let mail = Mail::new();
            mail.pipe.store(writer.as_raw_fd(), Ordering::Relaxed);
            let term = 15;
            let mut posted = 0;
            while mail.write(term) {
                posted += 1;
            }
            mail.post(term);
            mail.post(2 | TYPED);
            mail.post(64);
            let mut bytes = Vec::new();
            let over = reader.read_to_end(&mut bytes).unwrap_err();
            assert_eq!(over.kind(), io::ErrorKind::WouldBlock);
            assert_eq!(bytes, vec![term; posted]);
            let left: Vec<_> = mail.overflowed().collect();
            assert_eq!(left, [term, 64, 2 | TYPED]);
            assert_eq!(mail.overflowed().count(), 0);
            mail.post(2);
            assert_eq!(reader.read(&mut [0; 16]).unwrap(), 1);
            assert_eq!(mail.overflowed().count(), 0);
        }
    }
}
