//! All processes below us: those that we start, and those that come to us when their parents die.
//!
//! We are their reaper. A process is registered under the same lock under which it is made, so its end is never
//! seen before it is known.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::command::{Command, Environment};
use super::descendants;
use super::endings::{Change, End, How, Usage};
use super::guardian::{Guardian, MARK};
use super::signals::Signal;
use super::sys;
use super::terminal::Terminal;

pub(super) struct Family {
    state: Mutex<State>,
    /// Whether there is nobody below us.
    alone: watch::Sender<bool>,
    /// How many have ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    known: HashMap<u32, watch::Sender<Option<End>>>,
    /// Kills them all if we are killed.
    guardian: Option<Guardian>,
    /// The groups that it was told of.
    guarded: Vec<u32>,
    /// Those that others had started, and left to us.
    adopted: u32,
    /// The terminal, while a group below us has it.
    at_terminal: Option<Terminal>,
    usage: Usage,
}

/// A process that we look after.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// The group it is in: its own, or that of the one that started it.
    pub(super) group: u32,
    pub(super) began: Instant,
    end: watch::Receiver<Option<End>>,
}

impl Process {
    /// Completes when it has ended. Cancel-safe.
    pub(super) async fn ended(&self) -> End {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        match ended.ok().and_then(|end| *end) {
            Some(end) => end,
            // Nobody is left who could tell: the reaper is gone, and so are we.
            None => std::future::pending().await,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// To the process alone, or to its whole group. Nothing is sent to a process that is no more ours.
    pub(super) fn send(&self, signal: Signal, to_group: bool) {
        if to_group {
            sys::kill_group(self.group, signal);
        } else if !self.has_ended() {
            sys::kill(self.pid, signal);
        }
    }

    /// Has it end. One that is suspended could not hear of it, and goes on for that.
    pub(super) fn tell_to_end(&self, signal: Signal, to_group: bool) {
        self.send(signal, to_group);
        if !self.has_ended() {
            descendants::wake(self.pid);
        }
    }
}

impl Family {
    /// From here on orphans below us come to us, and whoever ends is seen to. On the runtime that calls it.
    pub(super) fn found(guardian: Option<Guardian>) -> io::Result<Arc<Self>> {
        // As the first process of a container we are it already, and elsewhere it cannot fail.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut knocks = signal(SignalKind::child())?;
        let family = Arc::new(Self {
            state: Mutex::new(State {
                guardian,
                ..State::default()
            }),
            alone: watch::Sender::new(true),
            ended: watch::Sender::new(0),
        });
        let reaper = Arc::clone(&family);
        // Until the very end, also while the stop goes on: a plain task, and no part of the service.
        tokio::spawn(async move {
            while knocks.recv().await.is_some() {
                reaper.reap();
            }
        });
        Ok(family)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what a process is known to belong to us, wherever it goes.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = Environment::default();
        if let Some(guardian) = &self.state().guardian {
            environment.set(MARK, guardian.mark());
        }
        environment
    }

    pub(super) fn spawn(&self, command: &Command) -> io::Result<Process> {
        let mut state = self.state();
        let pid = sys::spawn(command)?;
        self.alone.send_replace(false);
        if let Some(guardian) = &state.guardian {
            guardian.guard(pid);
            state.guarded.push(pid);
        }
        let (tell, end) = watch::channel(None);
        state.known.insert(pid, tell);
        Ok(Process {
            pid,
            group: pid,
            began: Instant::now(),
            end,
        })
    }

    /// Looks after a process below us that another one has started; `None` if it is not below us. It comes to us as a
    /// child when its parent has gone, and is seen to end before that, too.
    pub(super) fn adopt(self: &Arc<Self>, pid: u32) -> Option<Process> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        // Opened first: what is seen below us after that is what it was opened for.
        let pidfd = pidfd_open(raw, PidfdFlags::empty()).ok()?;
        let pidfd = sys::on_runtime(pidfd).ok()?;
        let mut state = self.state();
        if state.known.contains_key(&pid) || !descendants::is_below_us(pid) {
            return None;
        }
        let group = rustix::process::getpgid(Some(raw)).ok();
        let group = group.map(|group| group.as_raw_nonzero().get().unsigned_abs());
        let group = group.filter(|group| *group != sys::own_group());
        let group = group.unwrap_or(pid);
        let (tell, end) = watch::channel(None);
        state.known.insert(pid, tell);
        let family = Arc::clone(self);
        tokio::spawn(async move {
            if pidfd.readable().await.is_ok() {
                family.reap();
                family.see_end_of(pid);
            }
        });
        Some(Process {
            pid,
            group,
            began: Instant::now(),
            end,
        })
    }

    /// Of one that has ended, and is not ours to reap.
    fn see_end_of(&self, pid: u32) {
        if let Some(tell) = self.state().known.remove(&pid) {
            let how = descendants::status_of(pid).and_then(|status| How::of(Change::of(status)));
            let (how, usage) = (how.unwrap_or(How::Unseen), Usage::default());
            tell.send_replace(Some(End { how, usage }));
        }
    }

    fn reap(&self) {
        let mut state = self.state();
        self.reap_all(&mut state);
        state.take_terminal_back();
        let State {
            guardian, guarded, ..
        } = &mut *state;
        if let Some(guardian) = guardian {
            let gone = guarded.extract_if(.., |group| !sys::group_lives(*group));
            gone.for_each(|group| guardian.forget(group));
        }
    }

    fn reap_all(&self, state: &mut State) {
        loop {
            let (pid, change, usage) = match sys::reap() {
                Ok(Some(changed)) => changed,
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.alone.send_replace(true);
                    return;
                }
            };
            let Some(how) = How::of(change) else {
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
                Some(tell) => drop(tell.send_replace(Some(End { how, usage }))),
                None => state.adopted += 1,
            }
        }
    }

    /// Whether there is nobody below us: the kernel has said so, and /proc need not be searched.
    pub(super) fn is_alone(&self) -> bool {
        *self.alone.borrow()
    }

    /// Everybody below us but the guardian, the nearest first.
    pub(super) fn below(&self) -> Vec<u32> {
        let guardian = self.state().guardian.as_ref().map(Guardian::pid);
        let mut all = descendants::of(std::process::id());
        all.retain(|pid| Some(*pid) != guardian);
        all
    }

    /// Completes when there is nobody below us any more. Cancel-safe.
    pub(super) async fn alone(&self) {
        let _ = self.alone.subscribe().wait_for(|alone| *alone).await;
    }

    /// Completes when nobody in this process group lives any more. A zombie holds nothing, and its parent, who may have
    /// left the group, may never wait for it. Cancel-safe.
    pub(super) async fn without_group(&self, group: u32) {
        if !descendants::is_known() {
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

    /// The same, zombies and all: what the kernel tells without /proc.
    async fn without_members(&self, group: u32) {
        let mut ended = self.ended.subscribe();
        while sys::group_lives(group) {
            // Whoever leaves the group comes by us, at the latest when its parent has gone.
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// Nobody is below us, and nobody will be. Whoever is left all the same is the guardian's.
    pub(super) fn disband(&self) {
        let guardian = self.state().guardian.take();
        if let Some(guardian) = guardian.filter(|_| self.is_alone()) {
            guardian.dismiss();
        }
    }

    /// What all who ended have used, and how many of them were left to us by others.
    pub(super) fn account(&self) -> (Usage, u32) {
        let state = self.state();
        (state.usage, state.adopted)
    }

    /// Kills everybody below us and completes when they are gone; a process that sits in the kernel can take its
    /// time. Dropped half-way, it has killed those it saw.
    pub(super) async fn kill_all(&self) {
        while !self.is_alone() {
            let groups: Vec<u32> = self.state().known.keys().copied().collect();
            // All at once, if all are ours: nobody is missed, and /proc need not be asked.
            sys::kill_everybody(Signal::KILL);
            // A group first: the kernel lets none of its members fork away.
            for group in groups {
                sys::kill_group(group, Signal::KILL);
            }
            for pid in self.below() {
                sys::kill(pid, Signal::KILL);
            }
            // Those whose parents have just died are seen at the next look.
            let pause = Duration::from_millis(20);
            if tokio::time::timeout(pause, self.alone()).await.is_ok() {
                return;
            }
        }
    }
}

/// Those in this group that live.
fn living(group: u32) -> Vec<OwnedFd> {
    if !sys::group_lives(group) {
        return Vec::new();
    }
    descendants::in_group(group)
        .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .filter(|process| !sys::is_readable(process.as_fd()))
        .collect()
}

impl State {
    /// One of ours was suspended. One that asks for the terminal is given it; if it has it, somebody has pressed Ctrl-Z.
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

    /// With the last of its group the terminal comes back to us: Ctrl-C would reach nobody, and the next one that asks
    /// for it could not be given it.
    fn take_terminal_back(&mut self) {
        let is_over = |it: &mut Terminal| living(it.group()).is_empty();
        if let Some(terminal) = self.at_terminal.take_if(is_over) {
            terminal.take_back();
        }
    }
}
