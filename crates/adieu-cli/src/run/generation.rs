//! One life of the command. With a restart that leaves no gap there are two for a while, or more.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::command::ChildCommand;
use super::front::{Front, Upstream};
use super::log;
use super::notify::NotifySocket;
use super::process_tree::Process;
use super::worker::Worker;

#[derive(Clone)]
pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) process: Process,
    /// Which set of the sockets it has.
    pub(super) set: usize,
    pub(super) notify_socket: Option<Arc<NotifySocket>>,
    /// Where it takes the requests of `--front`.
    pub(super) upstream: Option<Arc<Upstream>>,
}

impl Generation {
    /// Starts the command in the place of one that is gone, or beside those that have these sets of sockets.
    pub(super) fn start(worker: &Worker, beside: Option<&[usize]>) -> io::Result<Self> {
        let options = &worker.options();
        let number = worker.next_number();
        let mut environment = worker.processes().environment();
        let timeouts = &worker.run.options.timeouts;
        timeouts.announce(&mut environment, options.levels, options.cloak);
        if options.workers > 1 {
            environment.set("ADIEU_WORKER", worker.index.to_string());
        }
        for (name, value) in &options.environment {
            environment.set(name, value);
        }
        // Always there: a program may send READY=1 also without `--ready notify`.
        let notify_socket = NotifySocket::open()
            .inspect_err(|error| {
                log::warn(format_args!(
                    "no NOTIFY_SOCKET for {}: {error}; what it says of its readiness is not heard",
                    worker.name
                ));
            })
            .ok()
            .map(Arc::new);
        if let Some(notify_socket) = &notify_socket {
            environment.set("NOTIFY_SOCKET", notify_socket.name.clone());
        }
        if let Some(watchdog) = options.watchdog {
            environment.set("WATCHDOG_USEC", watchdog.as_micros().to_string());
            environment.pid("WATCHDOG_PID");
        }
        let mut sockets = worker.sockets();
        let set = match beside {
            Some(others) if !sockets.is_empty() => sockets.set_for_next(others),
            _ => sockets.serving(),
        };
        sockets.announce(&mut environment, number);
        let descriptors = sockets.of_set(set);
        let descriptors = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let front = worker.front();
        let upstream = front.map(|front| front.upstream(worker.index, number));
        let upstream = upstream.transpose()?;
        let words = upstream.as_ref().map(|it| it.words(&options.command));
        let words = words.as_ref().unwrap_or(&options.command);
        let mut command = ChildCommand::new(words, environment, descriptors)?;
        command.file_limit = front.map(Front::file_limit);
        let process = worker.processes().spawn(&command)?;
        Ok(Self {
            number,
            process,
            set,
            notify_socket,
            upstream,
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
        let Some(notify_socket) = &self.notify_socket else {
            return std::future::pending().await;
        };
        let mut said = notify_socket.said.clone();
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

    /// Like [`moved`](Self::moved), of the messages sent so far: one may lie unread although its sender has ended.
    pub(super) fn has_moved(&self) -> Option<u32> {
        let notify_socket = self.notify_socket.as_ref()?;
        notify_socket.read_all();
        let main = notify_socket.said.borrow().main;
        main.filter(|main| *main != self.pid())
    }

    /// This generation in another process, with its sockets and its notify socket. `None` if that process is not below
    /// us, and then it stays as it was.
    pub(super) fn follow(&self, worker: &Worker, pid: u32) -> Option<Self> {
        let process = worker.processes().adopt(pid);
        if process.is_none() {
            log::warn(format_args!(
                "MAINPID={pid} is not a descendant: pid {} stays the command",
                self.pid()
            ));
            if let Some(notify_socket) = &self.notify_socket {
                notify_socket.forget_main();
            }
        }
        Some(Self {
            process: process?,
            ..self.clone()
        })
    }
}
