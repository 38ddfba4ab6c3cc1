//! Signal handlers, masks, and the way from a handler to the thread that reads.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What a signal did before we took it.
pub(crate) struct Disposition(libc::sigaction);

/// From the handlers to the thread that reads: a byte for each signal, in their order.
struct SelfPipe {
    /// Where a handler writes. Set once, before the first handler, to a descriptor that is never closed.
    pipe: AtomicI32,
    /// The signals that found the pipe full, which a few hundred fill: a bit for each number from 1 on, of those that
    /// processes sent and of those that were typed. Like the kernel, it has a signal waiting once or not at all.
    overflow: [AtomicU64; 2],
    /// The signals that are ours, a bit for each number from 1 on. A handler that was installed over ours calls ours,
    /// also when it should be gone.
    ours: AtomicU64,
}

static SELF_PIPE: SelfPipe = SelfPipe::new();

/// Set in the byte of a signal that was typed at the terminal; signal numbers are smaller.
const TYPED: u8 = 0x80;

/// The byte of an interrupt that the parent process sent: a number that no signal has.
const INTERRUPT_BY_PARENT: u8 = 0x7f;

/// Where a signal comes from, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalOrigin {
    /// A key of the terminal.
    Terminal,
    /// The parent process. Known of interrupts on Linux only.
    Parent,
    Other,
}

/// A byte that no signal writes.
pub(crate) const NO_SIGNAL: u8 = 0;

impl SelfPipe {
    const fn new() -> Self {
        Self {
            pipe: AtomicI32::new(-1),
            overflow: [const { AtomicU64::new(0) }; 2],
            ours: AtomicU64::new(0),
        }
    }

    /// Never waits, and loses nothing. Called from handlers: only what is async-signal-safe.
    fn write_signal(&self, byte: u8) {
        if self.write(byte) {
            return;
        }
        let (number, origin) = read_byte(byte);
        self.overflow[usize::from(origin == SignalOrigin::Terminal)]
            .fetch_or(bit(number), Ordering::SeqCst);
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
    SELF_PIPE.overflowed()
}

const fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

/// The signal's number, and where it comes from.
pub(crate) const fn read_byte(byte: u8) -> (i32, SignalOrigin) {
    match byte {
        INTERRUPT_BY_PARENT => (libc::SIGINT, SignalOrigin::Parent),
        TYPED.. => ((byte & !TYPED) as i32, SignalOrigin::Terminal),
        _ => (byte as i32, SignalOrigin::Other),
    }
}

/// Whether the kernel sent it by itself, as it does for a key of the terminal. Known on Linux only.
const fn is_typed(code: libc::c_int) -> bool {
    const SI_KERNEL: libc::c_int = 0x80;
    cfg!(target_os = "linux") && code == SI_KERNEL
}

/// Whether the parent process sent it, through `kill`.
#[cfg(target_os = "linux")]
fn is_by_parent(info: &libc::siginfo_t) -> bool {
    // SAFETY: with this code the kernel has filled in the sender's process id; `getppid` is async-signal-safe.
    info.si_code == libc::SI_USER && unsafe { info.si_pid() == libc::getppid() }
}

#[cfg(not(target_os = "linux"))]
fn is_by_parent(_: &libc::siginfo_t) -> bool {
    false
}

extern "C" fn on_signal(number: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if SELF_PIPE.ours.load(Ordering::SeqCst) & bit(number) == 0 {
        return;
    }
    // SAFETY: with SA_SIGINFO the system passes a pointer to a siginfo that is valid during the call.
    let info = unsafe { &*info };
    let byte = match number.to_le_bytes()[0] {
        number if is_typed(info.si_code) => number | TYPED,
        _ if number == libc::SIGINT && is_by_parent(info) => INTERRUPT_BY_PARENT,
        number => number,
    };
    // SAFETY: the system's pointer to the thread's own `errno`. It belongs to the interrupted code, so it is put back.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "l4re"))]
        let errno = libc::__errno_location();
        #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
        let errno = libc::__error();
        #[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "android"))]
        let errno = libc::__errno();
        let saved = *errno;
        SELF_PIPE.write_signal(byte);
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

/// From now on this signal's number arrives as a byte at `pipe`, which is kept open forever.
pub(crate) fn install(number: i32, pipe: &'static UnixStream) -> io::Result<Disposition> {
    SELF_PIPE.pipe.store(pipe.as_raw_fd(), Ordering::Relaxed);
    let before = current(number)?;
    // SAFETY: all-zero is a valid sigaction with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    SELF_PIPE.ours.fetch_or(bit(number), Ordering::SeqCst);
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
        // SAFETY: changes a live set of our own, which the system copies; a number that is not a signal is refused.
        unsafe {
            for number in numbers {
                libc::sigdelset(&raw mut mask, number);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        }
    }
}

/// Puts back what the signal did before, unless other code has installed a handler since.
pub(crate) fn restore(number: i32, before: &Disposition) {
    let ours = on_signal as *const () as libc::sighandler_t;
    if current(number).is_ok_and(|action| action.sa_sigaction == ours) {
        // SAFETY: the action was given to us by the system for this signal.
        unsafe { libc::sigaction(number, &raw const before.0, std::ptr::null_mut()) };
    }
    // After that: a signal in between is not lost, and at worst another handler has it twice.
    SELF_PIPE.ours.fetch_and(!bit(number), Ordering::SeqCst);
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
        let pipe_under_test = SelfPipe::new();
        pipe_under_test
            .pipe
            .store(writer.as_raw_fd(), Ordering::Relaxed);
        let term = 15;
        let mut posted = 0;
        while pipe_under_test.write(term) {
            posted += 1;
        }
        pipe_under_test.write_signal(term);
        pipe_under_test.write_signal(2 | TYPED);
        pipe_under_test.write_signal(INTERRUPT_BY_PARENT);
        pipe_under_test.write_signal(64);
        let mut bytes = Vec::new();
        let over = reader.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(bytes, vec![term; posted]);
        let left: Vec<_> = pipe_under_test.overflowed().collect();
        assert_eq!(left, [2, term, 64, 2 | TYPED]);
        assert_eq!(pipe_under_test.overflowed().count(), 0);
        pipe_under_test.write_signal(2);
        assert_eq!(reader.read(&mut [0; 16]).unwrap(), 1);
        assert_eq!(pipe_under_test.overflowed().count(), 0);
    }
}
