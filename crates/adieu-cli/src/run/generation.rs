//! One life of the command. With a restart that leaves no gap there are two for a while, or more.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::command::Command;
use super::family::Process;
use super::log;
use super::notify::{Ear, NotifySocket};
use super::service::Shared;

#[derive(Clone)]
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) process: Process,
    /// Which set of the sockets it has.
    pub(super) set: usize,
    pub(super) ear: Ear,
}

impl Generation {
    /// Starts the command in the place of one that is gone, or beside those that have these sets of sockets.
    pub(super) fn start(shared: &Shared, beside: Option<&[usize]>) -> io::Result<Self> {
        let options = &shared.options;
        let number = shared.next_number();
        let mut environment = shared.family.environment();
        options.term.announce(&mut environment);
        // Always there: a program may say READY=1 though nobody waits for it.
        let ear = NotifySocket::open(number).ok().map(Arc::new);
        if let Some(ear) = &ear {
            environment.set("NOTIFY_SOCKET", ear.name.clone());
        }
        if let Some(watchdog) = options.watchdog {
            environment.set("WATCHDOG_USEC", watchdog.as_micros().to_string());
            environment.pid("WATCHDOG_PID");
        }
        let mut sockets = shared.sockets();
        let set = match beside {
            Some(others) if !sockets.is_empty() => sockets.set_for_next(others),
            _ => sockets.serving(),
        };
        sockets.announce(&mut environment, number);
        let descriptors = sockets.of_set(set);
        let descriptors = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let command = Command::new(&options.command, environment, descriptors)?;
        let process = shared.family.spawn(&command)?;
        Ok(Self {
            number,
            process,
            set,
            ear,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    pub(super) fn group(&self) -> u32 {
        self.process.group
    }

    /// Completes when it has said that another process is the one to look at, with that one's id. Cancel-safe.
    pub(super) async fn moved(&self) -> u32 {
        let Some(ear) = &self.ear else {
            return std::future::pending().await;
        };
        let mut said = ear.said.clone();
        loop {
            let main = said.borrow_and_update().main;
            if let Some(main) = main.filter(|main| *main != self.pid()) {
                return main;
            }
            if said.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The same, of what it has said so far: a word may lie unread beside the end of who said it.
    pub(super) fn has_moved(&self) -> Option<u32> {
        let ear = self.ear.as_ref()?;
        ear.read_all();
        let main = ear.said.borrow().main;
        main.filter(|main| *main != self.pid())
    }

    /// The same generation in another process: its sockets and what it says are the same. `None` if that process is
    /// none of ours, and then it stays as it was.
    pub(super) fn follow(&self, shared: &Shared, pid: u32) -> Option<Self> {
        let process = shared.family.adopt(pid);
        if process.is_none() {
            log::warn(format_args!(
                "MAINPID={pid} is no process below us: pid {} stays the command",
                self.pid()
            ));
            if let Some(ear) = &self.ear {
                ear.forget_main();
            }
        }
        Some(Self {
            process: process?,
            ..self.clone()
        })
    }
}
