//! A system call that another process makes for us. We trace that process, as a debugger does, for a fraction of a
//! millisecond.
//!
//! Needed where a seccomp profile refuses `pidfd_getfd` and allows `ptrace`, as those of docker and containerd do. No
//! memory of the process is written: the instruction and the value of the option are ones that its vDSO has. A call in
//! which the process slept is restarted by the kernel, or returns EINTR as after a SIGCONT.

use std::io;
use std::os::fd::RawFd;

#[cfg(target_arch = "x86_64")]
use super::super::procfs;
#[cfg(target_arch = "x86_64")]
use here::Traced;

/// Hides these listening sockets of a process, by number and inode; gives back the inodes of those that are hidden.
#[cfg(target_arch = "x86_64")]
pub(in crate::run) fn hide(pid: u32, sockets: &[(RawFd, u64)]) -> io::Result<Vec<u64>> {
    let traced = Traced::stop(pid)?;
    // While it is stopped no number becomes that of something else, nor this process another one.
    let is_there = |number: RawFd, inode: u64| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{number}"));
        link.is_ok_and(|it| it.to_str() == Some(&format!("socket:[{inode}]")))
    };
    let is_hidden = |&(number, inode): &(RawFd, u64)| {
        (is_there(number, inode) && traced.hide(number)).then_some(inode)
    };
    Ok(sockets.iter().filter_map(is_hidden).collect())
}

/// The registers differ with the processor, and only one kind was ever tried.
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::run) fn hide(_: u32, _: &[(RawFd, u64)]) -> io::Result<Vec<u64>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether this process could be traced, as far as that can be seen without stopping it.
#[cfg(target_arch = "x86_64")]
pub(in crate::run) fn is_possible(pid: u32) -> io::Result<()> {
    here::is_allowed()?;
    // The kernel checks the same permission for reading the memory of a process as for tracing it.
    procfs::read_memory(pid, here::vdso(pid)?.start, &mut [0]).map(drop)
}

#[cfg(not(target_arch = "x86_64"))]
pub(in crate::run) fn is_possible(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Lets a process go on that has stopped for us when we did not wait for it any more.
pub(super) fn release(pid: u32) {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return;
    };
    // SAFETY: a request with plain numbers; it touches no memory.
    unsafe { libc::syscall(libc::SYS_ptrace, requests::DETACH, pid, 0_usize, 0_usize) };
}

/// How a process stops that was asked to.
pub(super) const EVENT_STOP: libc::c_int = 128;

/// What can be asked for, as in `linux/ptrace.h`.
mod requests {
    #![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) const CONT: usize = 7;
    pub(super) const DETACH: usize = 17;
    pub(super) const SYSCALL: usize = 24;
    pub(super) const GET_REGISTERS: usize = 0x4204;
    pub(super) const SET_REGISTERS: usize = 0x4205;
    pub(super) const SEIZE: usize = 0x4206;
    pub(super) const INTERRUPT: usize = 0x4207;
    pub(super) const GET_MASK: usize = 0x420a;
    pub(super) const SET_MASK: usize = 0x420b;
    /// An option: a stop at a system call has a number of its own.
    pub(super) const MARK_CALLS: usize = 1;
}

#[cfg(target_arch = "x86_64")]
mod here {
    use std::fs;
    use std::io;
    use std::ops::Range;
    use std::os::fd::RawFd;
    use std::time::{Duration, Instant};

    use libc::{c_int, pid_t, user_regs_struct};

    use super::super::super::procfs;
    use super::{EVENT_STOP, requests};

    /// What a process has to stop. One that waits for a disk cannot; it is let go when it stops later.
    const TRACE_STOP_TIMEOUT: Duration = Duration::from_millis(500);
    /// Between two looks whether it has.
    const TRACE_LOOK_INTERVAL: Duration = Duration::from_micros(50);
    /// How a process stops that was asked to, and at both ends of a system call.
    const ASKED: c_int = libc::SIGTRAP | (EVENT_STOP << 8);
    const AT_CALL: c_int = libc::SIGTRAP | 0x80;
    /// The instruction `syscall`.
    const CALL: [u8; 2] = [0x0f, 0x05];
    /// The first bytes of a vDSO. As a number: an interface that does not exist.
    const MAGIC: &[u8; 4] = b"\x7fELF";
    /// The code segment of 64-bit programs.
    const LONG_MODE: u64 = 0x33;
    const SO_BINDTOIFINDEX: u64 = 62;
    const EVERY_SIGNAL: u64 = u64::MAX;

    /// A process that is stopped. Dropped, it goes on where it was.
    pub(super) struct Traced {
        pid: pid_t,
        vdso: u64,
        /// Where in it a system call is made.
        call: u64,
        saved: Option<(user_regs_struct, u64)>,
    }

    impl Traced {
        pub(super) fn stop(pid: u32) -> io::Result<Self> {
            let vdso = vdso(pid)?;
            let length = usize::try_from(vdso.end - vdso.start).unwrap_or(0);
            let mut code = vec![0; length.min(64 * 1_024)];
            let read = procfs::read_memory(pid, vdso.start, &mut code)?;
            let at = code[..read].windows(2).position(|it| it == CALL);
            let at = at.filter(|_| code.starts_with(MAGIC));
            let at = at.ok_or(io::ErrorKind::Unsupported)?;
            let pid = pid_t::try_from(pid).map_err(io::Error::other)?;
            ask(requests::SEIZE, pid, 0, requests::MARK_CALLS)?;
            let mut traced = Self {
                pid,
                vdso: vdso.start,
                call: vdso.start + at as u64,
                saved: None,
            };
            traced.interrupt()?;
            let registers = traced.registers()?;
            if registers.cs != LONG_MODE {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let mut blocked = 0_u64;
            traced.mask(requests::GET_MASK, &mut blocked)?;
            traced.saved = Some((registers, blocked));
            // No handler is to run on registers that are not its own.
            traced.mask(requests::SET_MASK, &mut { EVERY_SIGNAL })?;
            Ok(traced)
        }

        /// Binds the socket to an interface that does not exist, as [`cloak`](adieu_os::socket::cloak) does.
        pub(super) fn hide(&self, socket: RawFd) -> bool {
            let socket = u64::try_from(socket).unwrap_or(u64::MAX);
            let level = libc::SOL_SOCKET.unsigned_abs().into();
            let arguments = [socket, level, SO_BINDTOIFINDEX, self.vdso, 4];
            self.call(libc::SYS_setsockopt, arguments)
                .is_ok_and(|it| it == 0)
        }

        fn call(&self, number: libc::c_long, arguments: [u64; 5]) -> io::Result<i64> {
            let mut registers = self.saved.ok_or(io::ErrorKind::NotConnected)?.0;
            registers.rip = self.call;
            registers.rax = number.unsigned_abs();
            // It is in no system call that would have to be restarted.
            registers.orig_rax = u64::MAX;
            [
                registers.rdi,
                registers.rsi,
                registers.rdx,
                registers.r10,
                registers.r8,
            ] = arguments;
            self.set_registers(&mut registers)?;
            for _ in 0..2 {
                ask(requests::SYSCALL, self.pid, 0, 0)?;
                if self.stopped()? != AT_CALL {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            Ok(self.registers()?.rax.cast_signed())
        }

        /// Stops it where a signal would be delivered.
        fn interrupt(&self) -> io::Result<()> {
            ask(requests::INTERRUPT, self.pid, 0, 0)?;
            loop {
                match self.stopped()? {
                    ASKED => return Ok(()),
                    // A signal of its own that came first; it is to have it.
                    signal @ 1..=64 => {
                        let signal = usize::try_from(signal).unwrap_or(0);
                        ask(requests::CONT, self.pid, 0, signal)?;
                    }
                    // Suspended by SIGSTOP meanwhile: it accepts nothing.
                    _ => return Err(io::ErrorKind::Interrupted.into()),
                }
            }
        }

        /// Waits until it has stopped, and not for its end: that is for `reap`.
        fn stopped(&self) -> io::Result<c_int> {
            let by = Instant::now() + TRACE_STOP_TIMEOUT;
            let id = libc::id_t::try_from(self.pid).unwrap_or(0);
            loop {
                // SAFETY: all-zero is a valid siginfo_t; the call writes to a live one, whose fields are those of a
                // child because that is what was waited for, or zero.
                let (done, pid, how) = unsafe {
                    let mut info: libc::siginfo_t = std::mem::zeroed();
                    let flags = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
                    let done = libc::waitid(libc::P_PID, id, &raw mut info, flags);
                    (done, info.si_pid(), info.si_status())
                };
                if done != 0 {
                    return Err(io::Error::last_os_error());
                }
                if pid == self.pid {
                    return Ok(how);
                }
                if Instant::now() > by {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                std::thread::sleep(TRACE_LOOK_INTERVAL);
            }
        }

        fn registers(&self) -> io::Result<user_regs_struct> {
            // SAFETY: all-zero is a valid set of registers.
            let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
            let size = self.transfer(requests::GET_REGISTERS, &mut registers)?;
            // A program of 32 bits has fewer.
            if size == size_of::<user_regs_struct>() {
                Ok(registers)
            } else {
                Err(io::ErrorKind::Unsupported.into())
            }
        }

        fn set_registers(&self, registers: &mut user_regs_struct) -> io::Result<()> {
            self.transfer(requests::SET_REGISTERS, registers).map(drop)
        }

        fn transfer(&self, how: usize, registers: &mut user_regs_struct) -> io::Result<usize> {
            const GENERAL: usize = 1;
            let mut part = libc::iovec {
                iov_base: std::ptr::from_mut(registers).cast(),
                iov_len: size_of::<user_regs_struct>(),
            };
            ask(how, self.pid, GENERAL, (&raw mut part).expose_provenance())?;
            Ok(part.iov_len)
        }

        fn mask(&self, how: usize, mask: &mut u64) -> io::Result<()> {
            ask(
                how,
                self.pid,
                size_of::<u64>(),
                std::ptr::from_mut(mask).expose_provenance(),
            )
        }
    }

    impl Drop for Traced {
        fn drop(&mut self) {
            if let Some((mut registers, mut blocked)) = self.saved.take() {
                // A call that was interrupted is restarted: to be let go is to look for signals first.
                let _ = self.set_registers(&mut registers);
                let _ = self.mask(requests::SET_MASK, &mut blocked);
            }
            let _ = ask(requests::DETACH, self.pid, 0, 0);
        }
    }

    /// Whether there is the call at all: a profile that refuses it says so in the place of "you do not trace that".
    pub(super) fn is_allowed() -> io::Result<()> {
        let us = pid_t::try_from(std::process::id()).map_err(io::Error::other)?;
        match ask(requests::DETACH, us, 0, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    fn ask(request: usize, pid: pid_t, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: `data` is a number, or the address of a live value of the size and kind that the request reads or
        // writes, see the callers; nothing is kept.
        let done = unsafe { libc::syscall(libc::SYS_ptrace, request, pid, address, data) };
        if done == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Where the vDSO of a process is.
    pub(super) fn vdso(pid: u32) -> io::Result<Range<u64>> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let line = maps.lines().find(|line| line.ends_with("[vdso]"));
        let place = line.and_then(|line| line.split(' ').next()?.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        place
            .and_then(|(start, end)| Some(number(start)?..number(end)?))
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}
