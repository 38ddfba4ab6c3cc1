//! All processes that come from one program, wherever they went.
//!
//! A daemon that forked twice is not a child of the program any more. Two things still give it away: it carries the mark of its run
//! in the environment it began with; and it comes back to us, because the drill adopts orphans while it runs. Who is
//! below us and was not started by us is such an orphan: see [`OrphanMatcher`].

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use adieu_os::process::{self, ProcessStat, has_in_environment};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::process::Child;

use super::spawning::spawning;
use super::system::Handle;

/// A process of the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcInfo {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    /// Since the start of the machine: with the number, this names a process for good.
    started: u64,
    dead: bool,
    pub(crate) name: String,
}

impl ProcInfo {
    pub(crate) const fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }

    /// By which it can be signalled, and no other process that has its number later. None if it is gone.
    pub(super) fn handle(&self) -> Option<Handle> {
        let handle = Handle::open(self.id()?);
        // The kernel may have given the number to another process before the handle was open, but not since.
        let same = look_at(self.pid).is_some_and(|now| now.started == self.started);
        same.then_some(handle)
    }
}

/// The name of the variable that marks a run.
pub(crate) const MARK: &str = "ADIEU_DRILL_RUN";

/// While one lives, orphaned descendants of this process become its children.
#[derive(Debug)]
pub(crate) struct Reaper;

static REAPERS: Mutex<usize> = Mutex::new(0);

/// Those that were started here, in order, by number and time of birth. They are not orphans of the program.
static OURS: Mutex<Vec<(i32, u64)>> = Mutex::new(Vec::new());

/// A process that was started here; until this is dropped it is not taken for an orphan.
#[derive(Debug)]
pub(super) struct SpawnedPid {
    pid: i32,
    started: u64,
}

impl SpawnedPid {
    /// A program. To be called before it is waited for: until then its number is its own.
    fn program(pid: Pid) -> Self {
        let pid = pid.as_raw_nonzero().get();
        let started = look_at(pid).map_or(Self::NO_ROOT, |one| one.started);
        Self::enter(pid, started)
    }

    /// A command that is none of the program's.
    pub(super) fn command(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self::enter(pid, Self::NO_ROOT))
    }

    /// As if born after all others: no process descends from it.
    const NO_ROOT: u64 = u64::MAX;

    fn enter(pid: i32, started: u64) -> Self {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        ours.push((pid, started));
        Self { pid, started }
    }
}

impl Drop for SpawnedPid {
    fn drop(&mut self) {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        let this = (self.pid, self.started);
        if let Some(at) = ours.iter().position(|one| *one == this) {
            ours.remove(at);
        }
    }
}

/// How an orphan without a mark is known, which came back to us.
#[derive(Clone, Copy, Debug)]
struct OrphanMatcher {
    us: i32,
    our_group: i32,
    /// No other code in this process starts processes.
    alone: bool,
}

impl OrphanMatcher {
    /// None while several drills share this process: an orphan could come from any of them.
    fn of(alone: bool) -> Option<Self> {
        let drills = *REAPERS.lock().unwrap_or_else(PoisonError::into_inner);
        let us = rustix::process::getpid().as_raw_nonzero().get();
        (drills == 1).then(|| Self {
            us,
            // As PID 1 of a namespace we may be in a group from outside of it, which has the number 0: rustix's call
            // takes that for impossible.
            our_group: look_at(us).map_or(0, |it| it.group),
            alone,
        })
    }

    /// Whether it is an orphan that comes from this root. The host of the drill may have children of its own: they are
    /// in its group, or lead one, which an orphan rarely does; where we are alone there are none.
    fn comes_from(self, one: &ProcInfo, root: &SpawnedPid, ours: &[(i32, u64)]) -> bool {
        let adopted = one.parent == self.us
            && one.group != self.our_group
            && (self.alone || one.group != one.pid)
            && !ours.iter().any(|own| own.0 == one.pid);
        // Of two that could have started it, the younger is it: the older one has been ended.
        let youngest = ours.iter().rev().find(|own| own.1 <= one.started);
        adopted && youngest == Some(&(root.pid, root.started))
    }
}

impl Reaper {
    pub(crate) fn new() -> Self {
        let mut count = REAPERS.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        if *count == 1 {
            adopt(true);
        }
        Self
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let mut count = REAPERS.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            adopt(false);
        }
    }
}

/// Where the system cannot, orphans are still found by their mark.
fn adopt(on: bool) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(on.then(rustix::process::getpid));
    #[cfg(not(target_os = "linux"))]
    let _ = on;
}

/// A command of our own, the group it leads, and every process with its mark. Dropped, what is left of them is ended.
#[derive(Debug)]
pub(crate) struct HelperProcess {
    leader: Option<ProcInfo>,
    mark: String,
    _ours: SpawnedPid,
}

impl HelperProcess {
    /// To be called before the child is waited for: until then its number is its own.
    pub(crate) fn new(_: &Child, leader: Pid, mark: String) -> Self {
        let pid = leader.as_raw_nonzero().get();
        Self {
            leader: look_at(pid),
            mark,
            _ours: SpawnedPid::enter(pid, SpawnedPid::NO_ROOT),
        }
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let all = all_processes();
        // Once the leader has been waited for, another process may lead a group of that number.
        let there = |leader: &&ProcInfo| {
            let now = all.get(&leader.pid);
            now.is_some_and(|now| now.started == leader.started)
        };
        let group = self.leader.as_ref().filter(there).map(|it| it.group);
        // What the shell has started outlives the shell otherwise.
        for one in all.values() {
            if Some(one.group) == group || is_marked(one.pid, &self.mark) {
                send(one, Signal::KILL);
            }
        }
    }
}

/// What is known of the processes of one run.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    root: SpawnedPid,
    mark: String,
    alone: bool,
    /// All processes seen so far, by number, with the time of birth.
    known: Mutex<BTreeMap<i32, u64>>,
}

impl ProcessTree {
    pub(crate) fn new(_: &Child, root: Pid, mark: String, alone: bool) -> Self {
        Self {
            root: SpawnedPid::program(root),
            mark,
            alone,
            known: Mutex::default(),
        }
    }

    /// All living processes, the root included. Dead children of ours are reaped.
    pub(crate) fn living(&self) -> Vec<ProcInfo> {
        let (all, started_here) = {
            let _registered = spawning();
            let ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
            (all_processes(), ours.clone())
        };
        let foundling = OrphanMatcher::of(self.alone);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<ProcInfo> = all
            .values()
            .filter(|one| {
                known.get(&one.pid) == Some(&one.started)
                    || descends(one, &self.root, &all)
                    || is_marked(one.pid, &self.mark)
                    || foundling.is_some_and(|it| it.comes_from(one, &self.root, &started_here))
            })
            .cloned()
            .collect();
        known.extend(ours.iter().map(|one| (one.pid, one.started)));
        let us = i32::try_from(std::process::id()).unwrap_or_default();
        for orphan in ours
            .iter()
            .filter(|one| one.dead && one.parent == us && one.pid != self.root.pid)
        {
            if let Some(pid) = Pid::from_raw(orphan.pid) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        ours.into_iter().filter(|one| !one.dead).collect()
    }

    /// All processes but the root.
    pub(crate) fn others(&self) -> Vec<ProcInfo> {
        let mut others = self.living();
        others.retain(|one| one.pid != self.root.pid);
        others
    }

    pub(crate) fn signal(&self, signal: Signal) {
        for one in self.living() {
            send(&one, signal);
        }
    }

    /// Sends a signal to the group that the root leads. Once the root has been waited for, its number may belong to
    /// another process: then only those of the group that are known to be ours get it, one after the other.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let root = self.root.pid;
        let there = look_at(root).is_some_and(|now| now.started == self.root.started);
        if there && let Some(leader) = Pid::from_raw(root) {
            let _ = rustix::process::kill_process_group(leader, signal);
            return;
        }
        for one in self.living().iter().filter(|one| one.group == root) {
            send(one, signal);
        }
    }
}

/// Sends a signal to this process, and to no other that has its number by now.
fn send(one: &ProcInfo, signal: Signal) {
    if let Some(handle) = one.handle() {
        handle.send(signal);
    }
}

fn descends(one: &ProcInfo, root: &SpawnedPid, all: &BTreeMap<i32, ProcInfo>) -> bool {
    let mut at = Some(one);
    // A process is younger than its parent, so the way up ends; the bound is for a table read while it changed.
    for _ in 0..64 {
        match at {
            // The number alone is not enough: the root may have ended, and its number belong to another process.
            Some(here) if here.pid == root.pid => return here.started == root.started,
            Some(here) => at = all.get(&here.parent),
            None => return false,
        }
    }
    false
}

/// Whether it was started with the mark. Of another user's process nothing can be read, and it is not ours.
fn is_marked(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    has(pid, |pair| pair == wanted.as_bytes())
}

/// Whether it was started with such a pair in its environment.
fn has(pid: i32, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    u32::try_from(pid).is_ok_and(|pid| has_in_environment(pid, is_wanted))
}

/// Kills every process with a mark that begins like this in its environment, and their descendants. Whether there was
/// one.
pub(super) fn end_marked(beginning: &str) -> bool {
    let all = all_processes();
    let wanted = format!("{MARK}={beginning}-");
    let marked: Vec<SpawnedPid> = all
        .values()
        .filter(|one| !one.dead && has(one.pid, |pair| pair.starts_with(wanted.as_bytes())))
        .map(|one| SpawnedPid {
            pid: one.pid,
            started: one.started,
        })
        .collect();
    let ours = |one: &&ProcInfo| !one.dead && marked.iter().any(|root| descends(one, root, &all));
    let left: Vec<&ProcInfo> = all.values().filter(ours).collect();
    for one in &left {
        send(one, Signal::KILL);
    }
    // They were never registered, so they have nothing to take back.
    marked.into_iter().for_each(std::mem::forget);
    !left.is_empty()
}

fn all_processes() -> BTreeMap<i32, ProcInfo> {
    let pids = process::all().filter_map(|pid| i32::try_from(pid).ok());
    pids.filter_map(|pid| Some((pid, look_at(pid)?))).collect()
}

fn look_at(pid: i32) -> Option<ProcInfo> {
    let stat = ProcessStat::of(u32::try_from(pid).ok()?)?;
    Some(ProcInfo {
        pid,
        parent: i32::try_from(stat.parent).ok()?,
        group: i32::try_from(stat.group).ok()?,
        started: stat.started,
        dead: stat.has_ended(),
        name: stat.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has the number of a root that ended, as the kernel gives numbers again.
    #[test]
    fn a_process_with_the_number_of_an_ended_root_is_not_signalled() {
        use std::os::unix::process::CommandExt as _;
        use std::process::Command;

        let mut sleep = Command::new("sleep");
        let mut innocent = sleep.arg("60").process_group(0).spawn().expect("sleep");
        let pid = i32::try_from(innocent.id()).expect("a number");
        let now = look_at(pid).expect("it runs");
        let tree = ProcessTree {
            root: SpawnedPid::enter(pid, now.started - 1),
            mark: "of no process".to_owned(),
            alone: false,
            known: Mutex::default(),
        };
        tree.signal(Signal::KILL);
        tree.signal_group(Signal::KILL);
        let helper = HelperProcess {
            leader: Some(ProcInfo {
                started: now.started - 1,
                ..now.clone()
            }),
            mark: "of no process".to_owned(),
            _ours: SpawnedPid::enter(pid, SpawnedPid::NO_ROOT),
        };
        drop(helper);
        assert_eq!(tree.living(), [], "it is not of this tree");
        assert!(look_at(pid).is_some_and(|it| !it.dead), "it was killed");
        let stale = ProcInfo {
            started: now.started - 1,
            ..now
        };
        assert!(stale.handle().is_none(), "a handle of another process");
        innocent.kill().expect("it is there");
        innocent.wait().expect("it ends");
    }

    #[test]
    fn who_came_back_to_us_is_the_orphan_of_the_youngest_start_before_it() {
        let ours = [(100, 10), (200, 20)];
        let [first, second] = ours.map(|(pid, started)| SpawnedPid { pid, started });
        let it = OrphanMatcher {
            us: 1,
            our_group: 2,
            alone: false,
        };
        let orphan = |pid: i32, group: i32, started: u64| ProcInfo {
            pid,
            parent: 1,
            group,
            started,
            dead: false,
            name: String::new(),
        };
        let daemon = orphan(300, 299, 25);
        assert!(it.comes_from(&daemon, &second, &ours));
        assert!(!it.comes_from(&daemon, &first, &ours));
        assert!(it.comes_from(&orphan(300, 299, 15), &first, &ours));
        // Older than any, another process's child, a child of the host in its group, and one that we started.
        assert!(!it.comes_from(&orphan(300, 299, 5), &first, &ours));
        let elsewhere = ProcInfo {
            parent: 7,
            ..daemon.clone()
        };
        assert!(!it.comes_from(&elsewhere, &second, &ours));
        assert!(!it.comes_from(&orphan(300, 2, 25), &second, &ours));
        assert!(!it.comes_from(&orphan(200, 299, 25), &second, &ours));
        // A leader may be a child of the host, unless there is none.
        let leader = orphan(300, 300, 25);
        assert!(!it.comes_from(&leader, &second, &ours));
        let alone = OrphanMatcher { alone: true, ..it };
        assert!(alone.comes_from(&leader, &second, &ours));
        // They were never registered, so they have nothing to take back.
        std::mem::forget((first, second));
    }
}
