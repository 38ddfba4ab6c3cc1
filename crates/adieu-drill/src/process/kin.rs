//! All processes that come from one program, wherever they went.
//!
//! A daemon that forked twice is nobody's child any more. Two things still give it away: it comes back to us, because
//! the drill adopts orphans while it runs; and it carries the mark of its run in the environment it began with.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::PoisonError;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::process::Child;

/// A process of the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kin {
    pub(crate) pid: i32,
    parent: i32,
    /// Since the start of the machine: with the number, this names a process for good.
    started: u64,
    dead: bool,
    pub(crate) name: String,
}

impl Kin {
    /// By which it can be signalled.
    pub(crate) const fn id(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

/// The name of the variable that marks a run.
pub(crate) const MARK: &str = "ADIEU_DRILL_RUN";

/// While one lives, orphaned descendants of this process become its children.
#[derive(Debug)]
pub(crate) struct Reaper;

static REAPERS: Mutex<usize> = Mutex::new(0);

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

/// What is known of the processes of one run.
#[derive(Debug)]
pub(crate) struct Family {
    root: i32,
    mark: String,
    /// Everybody seen so far, by number, with the time of birth.
    known: Mutex<BTreeMap<i32, u64>>,
}

impl Family {
    pub(crate) fn new(_: &Child, root: Pid, mark: String) -> Self {
        Self {
            root: root.as_raw_nonzero().get(),
            mark,
            known: Mutex::default(),
        }
    }

    /// Everybody who lives, the root included. What is dead and ours to bury is buried.
    pub(crate) fn living(&self) -> Vec<Kin> {
        let all = everybody();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<Kin> = all
            .values()
            .filter(|one| {
                known.get(&one.pid) == Some(&one.started)
                    || descends(one, self.root, &all)
                    || is_marked(one.pid, &self.mark)
            })
            .cloned()
            .collect();
        known.extend(ours.iter().map(|one| (one.pid, one.started)));
        let us = i32::try_from(std::process::id()).unwrap_or_default();
        for orphan in ours
            .iter()
            .filter(|one| one.dead && one.parent == us && one.pid != self.root)
        {
            if let Some(pid) = Pid::from_raw(orphan.pid) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        ours.into_iter().filter(|one| !one.dead).collect()
    }

    /// Everybody but the root.
    pub(crate) fn others(&self) -> Vec<Kin> {
        let mut others = self.living();
        others.retain(|one| one.pid != self.root);
        others
    }

    pub(crate) fn signal(&self, signal: Signal) {
        for one in self.living() {
            if let Some(pid) = Pid::from_raw(one.pid) {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

fn descends(one: &Kin, root: i32, all: &BTreeMap<i32, Kin>) -> bool {
    let mut at = Some(one);
    // A process is younger than its parent, so the way up ends; the bound is for a table read while it changed.
    for _ in 0..64 {
        match at {
            Some(here) if here.pid == root => return true,
            Some(here) => at = all.get(&here.parent),
            None => return false,
        }
    }
    false
}

/// Whether it was started with the mark. Of somebody else's process nothing can be read, and it is not ours.
fn is_marked(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|pair| pair == wanted.as_bytes())
    })
}

fn everybody() -> BTreeMap<i32, Kin> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, parse(pid, &String::from_utf8_lossy(&stat))?))
    })
    .collect()
}

/// `pid (name) state ppid …`, where a name may have spaces and parentheses of its own.
fn parse(pid: i32, stat: &str) -> Option<Kin> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    Some(Kin {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        dead: matches!(*fields.first()?, "Z" | "X"),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_anything() {
        let stat = "7 (a) S (b) Z 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 2";
        let kin = parse(7, stat).expect("a process");
        assert_eq!((kin.parent, kin.started, kin.dead), (3, 99, true));
        assert_eq!(kin.name, "a) S (b");
    }
}
