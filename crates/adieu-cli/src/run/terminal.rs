//! The terminal, while a command has it.
//!
//! We are its foreground, so that Ctrl-C comes to us. A command that wants to read from it is suspended by the kernel,
//! is given it, and hears Ctrl-C itself.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;
use rustix::termios;

use super::signals::Signal;
use super::sys;

pub(super) struct Terminal {
    device: OwnedFd,
    /// Whose it is.
    group: u32,
}

impl Terminal {
    /// Gives it to this group, if it is ours to give.
    pub(super) fn give_to(group: u32) -> Option<Self> {
        let device = device()?;
        let to = i32::try_from(group).ok().and_then(Pid::from_raw)?;
        if foreground(&device) != sys::own_group() {
            return None;
        }
        termios::tcsetpgrp(&device, to).ok()?;
        sys::kill_group(group, Signal::CONT);
        Some(Self { device, group })
    }

    pub(super) const fn group(&self) -> u32 {
        self.group
    }

    /// Takes it back, unless another process group has it by now, as that of the shell that started us.
    pub(super) fn take_back(self) {
        let holder = foreground(&self.device);
        if holder == 0 || holder == self.group {
            // It may be gone.
            let _ = sys::take_terminal(self.device.as_fd());
        }
    }
}

/// Standard input may be something else, and the terminal is asked for all the same.
fn device() -> Option<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/tty");
    let device = device.map(OwnedFd::from);
    let input = || std::io::stdin().as_fd().try_clone_to_owned();
    device.or_else(|_| input()).ok()
}

/// The foreground group of a terminal; 0 for one that is gone, and for a group that has no number here because it is of
/// another namespace.
fn foreground(device: &OwnedFd) -> u32 {
    termios::tcgetpgrp(device).map_or(0, |group| group.as_raw_pid().unsigned_abs())
}
