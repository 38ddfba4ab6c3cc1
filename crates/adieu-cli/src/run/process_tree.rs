//! All processes below us: those that we start, and those that come to us when their parents die.
//!
//! We are their reaper. A process is registered under the same lock under which it is made, so its end is never
//! seen before it is known.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::command::{ChildCommand, Environment};
use super::exit_status::{Change, End, ExitStatus, Usage};
use super::orphan_guard::{MARK, OrphanGuard};
use super::signals::Signal;
use super::terminal::Terminal;
use super::{log, procfs, sys};

pub(super) struct ProcessTree {
    state: Mutex<TreeState>,
    /// Whether each orphan that is reaped is logged.
    warn_reaped: bool,
    /// Whether all descendants have ended.
    is_empty: watch::Sender<bool>,
    /// How many have ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct TreeState {
    known: HashMap<u32, KnownProcess>,
    /// Kills them all if we are killed.
    guard: Option<OrphanGuard>,
    /// The groups that are registered with it.
    guarded: Vec<u32>,
    /// Those that others had started, and left to us.
    adopted: u32,
    /// The terminal, while a group below us has it.
    at_terminal: Option<Terminal>,
    usage: Usage,
}

struct KnownProcess {
    tell: watch::Sender<Option<End>>,
    /// Whether it is our child: until we reap it, the kernel gives its number, and that of the group that it leads, to
    /// no other.
    is_child: bool,
}

/// A process that we look after.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// The group it is in: its own, or that of the one that started it.
    pub(super) group: u32,
    pub(super) began: Instant,
    end: watch::Receiver<Option<End>>,
    processes: Arc<ProcessTree>,
}

impl Process {
    /// Completes when it has ended. Cancel-safe.
    pub(super) async fn ended(&self) -> End {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        match ended.ok().and_then(|end| *end) {
            Some(end) => end,
            // The reaper is gone, and this process is ending.
            None => std::future::pending().await,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// To the process alone, or to its whole group. Nothing is sent to a process that does not belong to the command any more.
    pub(super) fn send(&self, signal: Signal, to_group: bool) {
        if to_group {
            self.processes.signal_group(self.group, signal);
        } else if self.processes.state().holds(self.pid) {
            sys::kill(self.pid, signal);
        } else if !self.has_ended() {
            procfs::signal(self.pid, signal);
        }
    }

    /// Asks it to end. A suspended process could not handle the signal, so it is continued.
    pub(super) fn tell_to_end(&self, signal: Signal, to_group: bool) {
        self.send(signal, to_group);
        if !self.has_ended() {
            procfs::wake(self.pid);
        }
    }
}

impl ProcessTree {
    /// From here on the kernel makes orphans below us our children, and each process that ends is reaped. On the
    /// runtime that calls it.
    pub(super) fn become_subreaper(
        guard: Option<OrphanGuard>,
        warn_reaped: bool,
    ) -> io::Result<Arc<Self>> {
        // As the PID 1 of a container we are it already, and elsewhere it cannot fail.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut knocks = signal(SignalKind::child())?;
        let processes = Arc::new(Self {
            state: Mutex::new(TreeState {
                guard,
                ..TreeState::default()
            }),
            warn_reaped,
            is_empty: watch::Sender::new(true),
            ended: watch::Sender::new(0),
        });
        let reaper = Arc::clone(&processes);
        // Until the very end, also while the stop goes on: a plain task, and no part of the service.
        tokio::spawn(async move {
            while knocks.recv().await.is_some() {
                reaper.reap();
            }
        });
        Ok(processes)
    }

    fn state(&self) -> MutexGuard<'_, TreeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what a process is known to belong to us, wherever it goes.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = Environment::default();
        if let Some(guard) = &self.state().guard {
            environment.set(MARK, guard.mark());
        }
        environment
    }

    pub(super) fn spawn(self: &Arc<Self>, command: &ChildCommand) -> io::Result<Process> {
        let mut state = self.state();
        let pid = sys::spawn(command)?;
        self.is_empty.send_replace(false);
        if let Some(guard) = &state.guard {
            guard.watch(pid);
            state.guarded.push(pid);
        }
        let (tell, end) = watch::channel(None);
        let is_child = true;
        state.known.insert(pid, KnownProcess { tell, is_child });
        Ok(Process {
            pid,
            group: pid,
            began: Instant::now(),
            end,
            processes: Arc::clone(self),
        })
    }

    /// Looks after a process below us that another one has started; `None` if it is not below us. It comes to us as a
    /// child when its parent has gone, and is seen to end before that, too.
    pub(super) fn adopt(self: &Arc<Self>, pid: u32) -> Option<Process> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        // Opened first: what is seen below us after that is what it was opened for.
        let pidfd = sys::on_runtime(procfs::open(pid).ok()?).ok()?;
        let mut state = self.state();
        if state.known.contains_key(&pid) || !procfs::is_below_us(pid) {
            return None;
        }
        let group = rustix::process::getpgid(Some(raw)).ok();
        let group = group.map(|group| group.as_raw_nonzero().get().unsigned_abs());
        let group = group.filter(|group| *group != sys::own_group());
        let group = group.unwrap_or(pid);
        let (tell, end) = watch::channel(None);
        let is_child = false;
        state.known.insert(pid, KnownProcess { tell, is_child });
        let processes = Arc::clone(self);
        tokio::spawn(async move {
            if pidfd.readable().await.is_ok() {
                processes.reap();
                processes.note_end_of(pid);
            }
        });
        Some(Process {
            pid,
            group,
            began: Instant::now(),
            end,
            processes: Arc::clone(self),
        })
    }

    /// Of one that has ended, and is not ours to reap.
    fn note_end_of(&self, pid: u32) {
        if let Some(KnownProcess { tell, .. }) = self.state().known.remove(&pid) {
            let how = procfs::status_of(pid).and_then(|status| ExitStatus::of(Change::of(status)));
            let (how, usage) = (how.unwrap_or(ExitStatus::Unseen), Usage::default());
            tell.send_replace(Some(End { how, usage }));
        }
    }

    fn reap(&self) {
        let mut state = self.state();
        self.reap_all(&mut state);
        state.take_terminal_back();
        let mut guarded = std::mem::take(&mut state.guarded);
        if let Some(guard) = &state.guard {
            let gone = guarded.extract_if(.., |group| !state.has_group(*group));
            gone.for_each(|group| guard.forget(group));
        }
        state.guarded = guarded;
    }

    fn reap_all(&self, state: &mut TreeState) {
        loop {
            let (pid, change, usage) = match sys::reap() {
                Ok(Some(changed)) => changed,
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.is_empty.send_replace(true);
                    return;
                }
            };
            let Some(how) = ExitStatus::of(change) else {
                if let Change::Suspended(signal) = change
                    && state.known.contains_key(&pid)
                {
                    state.see_suspended(pid, signal);
                }
                continue;
            };
            state.usage += usage;
            self.ended.send_modify(|count| *count += 1);
            match state.known.remove(&pid) {
                Some(known) => drop(known.tell.send_replace(Some(End { how, usage }))),
                None => {
                    state.adopted += 1;
                    if self.warn_reaped {
                        log::warn(format_args!("reaped an orphan: pid {pid} {how}"));
                    }
                }
            }
        }
    }

    /// Whether all descendants have ended: the kernel has said so, and /proc need not be searched.
    pub(super) fn is_empty(&self) -> bool {
        *self.is_empty.borrow()
    }

    /// All processes below us but the guard, the nearest first.
    pub(super) fn descendants(&self) -> Vec<u32> {
        let guard = self.state().guard.as_ref().map(OrphanGuard::pid);
        let mut all = procfs::descendants(std::process::id());
        all.retain(|pid| Some(*pid) != guard);
        all
    }

    /// Completes when all descendants have ended. Cancel-safe.
    pub(super) async fn emptied(&self) {
        let _ = self.is_empty.subscribe().wait_for(|alone| *alone).await;
    }

    /// Whether this group has a member, and is the one that we mean.
    pub(super) fn has_group(&self, group: u32) -> bool {
        self.state().has_group(group)
    }

    /// To all of a group, and to no other process: its number may be that of another group once it is empty. Processes
    /// that are signalled one by one may fork meanwhile, so for SIGKILL the group is looked at again.
    pub(super) fn signal_group(&self, group: u32, signal: Signal) {
        const LOOKS: usize = 5;
        if self.state().holds(group) || !procfs::is_mounted() {
            return sys::kill_group(group, signal);
        }
        for _ in 0..if signal == Signal::KILL { LOOKS } else { 1 } {
            let living = living(group);
            for process in &living {
                sys::signal(process.as_fd(), signal);
            }
            if living.is_empty() {
                return;
            }
        }
    }

    /// Has those of a group go on that are suspended.
    pub(super) fn wake_group(&self, group: u32) {
        let ours = procfs::in_group(group).filter(|pid| procfs::is_below_us(*pid));
        ours.for_each(procfs::wake);
    }

    /// Completes when no process in this group lives any more. A zombie holds nothing, and its parent, which may have
    /// left the group, may never wait for it. Cancel-safe.
    pub(super) async fn without_group(&self, group: u32) {
        if !procfs::is_mounted() {
            return self.without_members(group).await;
        }
        loop {
            let living = living(group);
            if living.is_empty() {
                // Those that came to us go now.
                return self.reap();
            }
            for process in living {
                let Ok(process) = sys::on_runtime(process) else {
                    return self.without_members(group).await;
                };
                let _ = process.readable().await;
            }
        }
    }

    /// [`without_group`](Self::without_group) without /proc: zombies count as members.
    async fn without_members(&self, group: u32) {
        let mut ended = self.ended.subscribe();
        while self.has_group(group) {
            // Each process that leaves the group is reaped by us, at the latest when its parent has gone.
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// No process is below us, and none will be. If one is left all the same, the guard kills it.
    pub(super) fn dismiss_guard(&self) {
        let guard = self.state().guard.take();
        if let Some(guard) = guard.filter(|_| self.is_empty()) {
            guard.dismiss();
        }
    }

    /// What all ended processes have used, and how many of them were orphans of other processes.
    pub(super) fn usage(&self) -> (Usage, u32) {
        let state = self.state();
        (state.usage, state.adopted)
    }

    /// Kills all processes below us and completes when they are gone; a process that sits in the kernel can take its
    /// time. Dropped half-way, it has killed those it saw.
    pub(super) async fn kill_all(&self) {
        while !self.is_empty() {
            let groups: Vec<u32> = self.state().children().collect();
            // As PID 1 all at once: none is missed, and /proc need not be asked.
            sys::kill_all_processes(Signal::KILL);
            // A group first: the kernel lets none of its members fork away.
            for group in groups {
                sys::kill_group(group, Signal::KILL);
            }
            for pid in self.descendants() {
                procfs::signal(pid, Signal::KILL);
            }
            // Those whose parents have just died are seen at the next look.
            let pause = Duration::from_millis(20);
            if tokio::time::timeout(pause, self.emptied()).await.is_ok() {
                return;
            }
        }
    }
}

/// Those in this group that live, and are below us.
fn living(group: u32) -> Vec<OwnedFd> {
    if !sys::group_lives(group) {
        return Vec::new();
    }
    // Opened first: what is seen after that is what it was opened for.
    let is_ours = |pid| procfs::is_in_group(pid, group) && procfs::is_below_us(pid);
    procfs::in_group(group)
        .filter_map(|pid| Some((pid, procfs::open(pid).ok()?)))
        .filter(|(pid, process)| is_ours(*pid) && !sys::is_readable(process.as_fd()))
        .map(|(_, process)| process)
        .collect()
}

impl TreeState {
    /// Whether the number of this process is still its own.
    fn holds(&self, pid: u32) -> bool {
        self.known.get(&pid).is_some_and(|known| known.is_child)
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        let children = self.known.iter().filter(|(_, known)| known.is_child);
        children.map(|(pid, _)| *pid)
    }

    fn has_group(&self, group: u32) -> bool {
        let is_below_us = |pid| procfs::is_below_us(pid);
        sys::group_lives(group)
            && (self.holds(group)
                || !procfs::is_mounted()
                || procfs::in_group(group).any(is_below_us))
    }

    /// One of ours was suspended. One that asks for the terminal is given it; if it has it, a person has pressed
    /// Ctrl-Z.
    fn see_suspended(&mut self, pid: u32, signal: Signal) {
        if signal.0 == libc::SIGTTIN || signal.0 == libc::SIGTTOU {
            self.take_terminal_back();
            self.at_terminal = Terminal::give_to(pid);
            return;
        }
        let theirs = self.at_terminal.take_if(|it| it.group() == pid);
        if let Some(terminal) = theirs.filter(|_| signal.0 == libc::SIGTSTP) {
            terminal.take_back();
            // We with it: a shell that we were started from sees no other. It goes on when we do, which is at once if
            // there is no such shell.
            sys::suspend_us();
            sys::kill_group(pid, Signal::CONT);
        }
    }

    /// With the last of its group the terminal comes back to us: Ctrl-C would reach no process, and the next one that
    /// asks for it could not be given it.
    fn take_terminal_back(&mut self) {
        let is_over = |it: &mut Terminal| living(it.group()).is_empty();
        if let Some(terminal) = self.at_terminal.take_if(is_over) {
            terminal.take_back();
        }
    }
}
