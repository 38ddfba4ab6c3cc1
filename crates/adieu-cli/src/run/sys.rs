//! The system calls that neither the standard library nor rustix has. With its module, the only file of this crate with
//! `unsafe`.
#![allow(unsafe_code)]

pub(super) mod trace;

use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use super::command::{ChildCommand, fill_in};
use super::exit_status::{Change, Usage};
use super::signals::Signal;

/// Addresses for `execve`; they are looked at by the child only, whose memory is a copy of ours.
struct Pointers(Vec<usize>);

impl Pointers {
    fn to<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let addresses = texts.into_iter().map(|text| text.as_ptr() as usize);
        Self(addresses.chain([0]).collect())
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.0.as_ptr().cast()
    }
}

/// Starts the command in a process group of its own, to be killed if this thread ends. Gives back its process id.
///
/// The standard library forks, hands errors back and cleans the signal mask; the exec is ours, because only the
/// child knows its process id, and `LISTEN_PID` has to say it.
pub(super) fn spawn(command: &ChildCommand) -> io::Result<u32> {
    let paths: Vec<CString> = command.paths.clone();
    let arguments: Vec<CString> = command.arguments.clone();
    let shell = CString::from(c"/bin/sh");
    let mut environment: Vec<(Vec<u8>, Option<usize>)> = command
        .environment
        .iter()
        .map(|it| (it.text.as_bytes_with_nul().to_vec(), it.pid_at))
        .collect();
    let argv = Pointers::to(arguments.iter().map(|it| it.as_bytes_with_nul()));
    // A script without an interpreter line is the shell's, as with `execvp`; a program for another processor is not.
    let mut shell_argv: Vec<Pointers> = Vec::new();
    for path in &paths {
        let words = [shell.as_bytes_with_nul(), path.as_bytes_with_nul()];
        let rest = arguments.iter().skip(1).map(|it| it.as_bytes_with_nul());
        shell_argv.push(Pointers::to(words.into_iter().chain(rest)));
    }
    let envp = Pointers::to(environment.iter().map(|(text, _)| &text[..]));
    let sockets = command.sockets.clone();
    let file_limit = command.file_limit;
    let parent = process::id();
    let become_it = move || {
        // SAFETY: the calls below are async-signal-safe system calls with plain numbers; the pointers lead to
        // zero-ended texts and arrays that the closure owns, unmoved since they were taken because a `CString`
        // and a `Vec` keep their buffers where they are. Nothing is allocated.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // It may have died before that call.
            if u32::try_from(libc::getppid()).ok() != Some(parent) {
                libc::_exit(1);
            }
            for (target, socket) in (3..).zip(&sockets) {
                let done = if *socket == target {
                    libc::fcntl(target, libc::F_SETFD, 0)
                } else {
                    libc::dup2(*socket, target)
                };
                if done == -1 {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(limit) = &file_limit {
                // No limit of ours is larger than the largest number there is, which means none.
                let limit = libc::rlimit {
                    rlim_cur: limit.current.unwrap_or(libc::RLIM_INFINITY),
                    rlim_max: limit.maximum.unwrap_or(libc::RLIM_INFINITY),
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
            let pid = u32::try_from(libc::getpid()).unwrap_or(0);
            for (text, pid_at) in &mut environment {
                if let Some(at) = *pid_at {
                    let end = text.len() - 1;
                    fill_in(&mut text[at..end], pid);
                }
            }
            let mut denied = None;
            for (path, shell_argv) in paths.iter().zip(&shell_argv) {
                libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::ENOENT | libc::ENOTDIR) => {}
                    Some(libc::EACCES) => denied = Some(error),
                    Some(libc::ENOEXEC) => {
                        if is_text(path) {
                            libc::execve(shell.as_ptr(), shell_argv.as_ptr(), envp.as_ptr());
                        }
                        return Err(error);
                    }
                    _ => return Err(error),
                }
            }
            Err(denied.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOENT)))
        }
    };
    let mut spawned = process::Command::new("/proc/self/exe");
    // SAFETY: see the closure.
    unsafe { spawned.pre_exec(become_it) };
    Ok(spawned.process_group(0).spawn()?.id())
}

/// Does this in a process of its own, and ends it. The kernel signals its end to no process and no [`reap`] sees it,
/// only [`see_off`]. Only while there is one thread: of the others' locks the copy would have no owner.
pub(super) fn detach(work: impl FnOnce()) -> io::Result<u32> {
    // All zero: a copy of this process that sends no signal when it ends. `libc::fork` is more than that: it asks all
    // allocators first, and an end that is signalled is one to wait for.
    const NOTHING: c_long = 0;
    // SAFETY: with one thread the copy is as whole as we are; the exit runs nothing that is ours to run.
    let pid = unsafe {
        let pid = libc::syscall(libc::SYS_clone, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING);
        if pid == 0 {
            work();
            libc::_exit(0);
        }
        pid
    };
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// Waits for the end of a process that was [detached](detach).
pub(super) fn see_off(pid: u32) {
    if let Ok(pid @ 1..) = i32::try_from(pid) {
        // SAFETY: waits for a child of ours, and writes to nothing.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WCLONE) };
    }
}

/// Detaches this process from everything: it keeps this file descriptor alone, no terminal, no directory and no signal.
pub(super) fn withdraw(keep: impl AsFd, name: &str) -> io::Result<()> {
    let keep = u32::try_from(keep.as_fd().as_raw_fd()).unwrap_or(0);
    let name = CString::new(name)?;
    // SAFETY: plain calls. The descriptors that are closed belong to a copy of a process of which nothing else is
    // used any more; the set and the texts are live during the calls.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        let below = keep == 0 || libc::syscall(libc::SYS_close_range, 0, keep - 1, 0) == 0;
        if below && libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0) == 0 {
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}

/// Whether a file begins like one that a shell can read. Between fork and exec: allocates nothing.
fn is_text(path: &CStr) -> bool {
    let mut beginning = [0_u8; 128];
    // SAFETY: plain system calls; the path is zero-ended, and no more is read than there is room for.
    let count = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let count = libc::read(file, beginning.as_mut_ptr().cast(), beginning.len());
        libc::close(file);
        count
    };
    let beginning = &beginning[..usize::try_from(count).unwrap_or(0)];
    !beginning.starts_with(b"\x7fELF") && !beginning.contains(&0)
}

/// A child whose state has changed, without waiting for one; `None` while no state has changed. An error means
/// that there is no child at all.
pub(super) fn reap() -> io::Result<Option<(u32, Change, Usage)>> {
    let mut status: c_int = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = libc::WNOHANG | libc::WUNTRACED;
    // SAFETY: both pointers are to live values of the right types, and the call keeps neither.
    let pid = unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) };
    let pid = match u32::try_from(pid) {
        Ok(0) => return Ok(None),
        Ok(pid) => pid,
        Err(_) => return Err(io::Error::last_os_error()),
    };
    if libc::WIFSTOPPED(status) && status >> 16 == trace::EVENT_STOP {
        trace::release(pid);
        return reap();
    }
    let change = Change::of(status);
    let usage = Usage {
        user: span(usage.ru_utime),
        system: span(usage.ru_stime),
        peak_kb: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    };
    Ok(Some((pid, change, usage)))
}

fn span(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Sends a signal to a process. One that is gone is ignored.
pub(super) fn kill(pid: u32, signal: Signal) {
    if let Ok(pid @ 1..) = i32::try_from(pid) {
        // SAFETY: takes two numbers and touches no memory.
        unsafe { libc::kill(pid, signal.0) };
    }
}

/// Sends a signal to the process that this descriptor stands for. One that is gone is ignored.
pub(super) fn signal(process: BorrowedFd<'_>, signal: Signal) {
    let (process, nothing) = (process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: the descriptor is open for the call; without information of our own the kernel fills it in.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal.0, nothing, 0) };
}

/// Sends a signal to all other processes: for PID 1 of a container, to which all others belong.
pub(super) fn kill_all_processes(signal: Signal) {
    if process::id() == 1 {
        // SAFETY: takes two numbers and touches no memory.
        unsafe { libc::kill(-1, signal.0) };
    }
}

/// Sends a signal to all of a process group.
pub(super) fn kill_group(group: u32, signal: Signal) {
    if let Ok(group @ 2..) = i32::try_from(group) {
        // SAFETY: takes two numbers and touches no memory.
        unsafe { libc::kill(-group, signal.0) };
    }
}

/// Whether the group has a member.
pub(super) fn group_lives(group: u32) -> bool {
    // SAFETY: takes two numbers and touches no memory.
    i32::try_from(group).is_ok_and(|group| group > 1 && unsafe { libc::kill(-group, 0) } == 0)
}

/// New connections to the group of sockets that share this one's port go to the socket of this index.
pub(super) fn direct(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let mut program = libc::sock_filter {
        code: u16::try_from(libc::BPF_RET | libc::BPF_K).unwrap_or(0),
        jt: 0,
        jf: 0,
        k: index,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut program,
    };
    set_option(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

fn set_option<T>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the descriptor is open for the call, the value is live and of the size given, and what it may point
    // to lives as long; the kernel copies both.
    let done = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, size)
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How many connections wait to be accepted on a listening TCP socket.
pub(super) fn queue(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: all-zero is a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
    // SAFETY: the descriptor is open for the call, which writes at most `size` bytes to a live tcp_info.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    // For a socket that listens, this field is the length of its queue.
    if done == 0 {
        Ok(info.tcpi_unacked)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether there is something to read: of a listening socket, that a connection waits; of a process, that it has ended.
pub(super) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut asked = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd, and the count says so; with no time to wait it returns at once.
    unsafe { libc::poll(&raw mut asked, 1, 0) == 1 }
}

/// Takes a descriptor that was handed to this process at its start.
pub(super) fn take_inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: asks for flags, and sets them on a descriptor that no code of this process has made.
    unsafe {
        if libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == -1 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(number))
    }
}

/// Keeps these descriptor numbers from being given to anything else: in the child they are the sockets', and the
/// standard library's pipe must not be there.
pub(super) fn reserve(numbers: std::ops::Range<RawFd>, with: &OwnedFd) -> io::Result<()> {
    for number in numbers {
        // SAFETY: a descriptor that is open already is left alone; any other number is free.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == -1
                && libc::dup3(with.as_raw_fd(), number, libc::O_CLOEXEC) == -1
            {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Lets go of the pages of program and libraries that start-up went through. A wrapper sleeps for the rest of its life
/// beside what it wraps; of the little it still needs, each page comes back when it is touched.
pub(super) fn let_go_of_code() {
    extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> c_int {
        // SAFETY: the loader hands in its own description of an object, with as many headers as it says, and keeps
        // it as it is during the call.
        let (base, headers) = unsafe {
            let headers = (*info).dlpi_phdr;
            let count = usize::from((*info).dlpi_phnum);
            (
                (*info).dlpi_addr,
                std::slice::from_raw_parts(headers, count),
            )
        };
        // SAFETY: asks for a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096);
        for header in headers {
            // What was never writable is as it is in the file; relocations are written elsewhere.
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 {
                let start = (base + header.p_vaddr).next_multiple_of(page);
                let end = (base + header.p_vaddr + header.p_memsz) / page * page;
                let length = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
                let start = std::ptr::with_exposed_provenance_mut(
                    usize::try_from(start).unwrap_or(usize::MAX),
                );
                // SAFETY: whole pages of a read-only private mapping of a file: the kernel maps the same bytes
                // again at the next access. An unmapped address is refused.
                unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) };
            }
        }
        0
    }
    // SAFETY: the callback takes what it is given as the loader describes it, and unwinds never.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::null_mut()) };
}

/// The process group that we are in; 0 if it is one of another PID namespace.
pub(super) fn own_group() -> u32 {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::getpgrp() }).unwrap_or(0)
}

/// Suspends us and all of our group, as Ctrl-Z does, until a SIGCONT. An orphaned process group, which no shell could
/// continue, is not suspended by the kernel.
pub(super) fn suspend_us() {
    // SAFETY: takes two numbers and touches no memory.
    unsafe { libc::kill(0, libc::SIGTSTP) };
}

/// Makes this process group the foreground of our terminal, though we are in the background: the signal that keeps such
/// from it is blocked meanwhile.
pub(super) fn take_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    let mut meanwhile = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are live during the calls; the first is made empty before it is used, and the second is written
    // before it is, or left all-zero, which is an empty set. The rest are plain numbers.
    unsafe {
        libc::sigemptyset(meanwhile.as_mut_ptr());
        libc::sigaddset(meanwhile.as_mut_ptr(), libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, meanwhile.as_ptr(), before.as_mut_ptr());
        let done = libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpgrp());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        if done == 0 { Ok(()) } else { Err(error) }
    }
}

/// A descriptor whose readiness the runtime tells.
pub(super) fn on_runtime(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as the `AsyncFd` has it.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Receives every signal again, whatever our parent process had blocked: one that is blocked would never come in, not
/// even the one that tells of a child's end. Before there is a second thread, which would inherit the mask.
pub(super) fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is live during the calls, and made empty by the first.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Has the kernel send us this signal when our parent process ends, and sends it at once if that has happened before.
/// The parent is the thread that started us, as the kernel sees it.
pub(super) fn signal_when_parent_ends(signal: Signal) -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory.
    let (before, done) = unsafe {
        let before = libc::getppid();
        (before, libc::prctl(libc::PR_SET_PDEATHSIG, signal.0))
    };
    if done == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: asks for a number.
    if unsafe { libc::getppid() } != before {
        kill(process::id(), signal);
    }
    Ok(())
}

/// Which signals have come before they had a handler, a bit for each.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Until the runtime handles these signals, and after it has given them back, they do not kill us: it is kept which
/// have come. Those that are ignored stay so.
pub(super) fn keep_signals(signals: impl IntoIterator<Item = Signal>) {
    extern "C" fn keep(number: c_int) {
        KEPT.fetch_or(bit(number), Ordering::Relaxed);
    }
    for signal in signals.into_iter().filter(|it| !is_ignored(*it)) {
        // SAFETY: all-zero is a valid action with an empty mask. The handler has the signature of one without
        // SA_SIGINFO, and does nothing but change an atomic number; the old action is not asked for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = keep as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal.0, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Those that were [kept](keep_signals), sent anew, to the handlers that are there by now.
pub(super) fn repeat_kept() {
    let kept = KEPT.swap(0, Ordering::Relaxed);
    for number in (1..=64).filter(|number| kept & bit(*number) != 0) {
        kill(process::id(), Signal(number));
    }
}

/// Signals go from 1 to 64.
const fn bit(number: c_int) -> u64 {
    1 << ((number - 1) & 63)
}

/// Whether our parent process set this signal to be ignored, as `nohup` does.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the old one is written to a place of the right type, for which all-zero is a
    // valid value too.
    unsafe {
        libc::sigaction(signal.0, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
