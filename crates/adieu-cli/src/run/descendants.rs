//! Who descends from whom, as /proc tells it.

use std::collections::HashMap;
use std::fs;

use super::signals::Signal;
use super::sys;

/// All processes below this one, the nearest first. A look at one moment: some may be gone, some may be new. None if /proc
/// is [not ours](is_known).
pub(super) fn of(root: u32) -> Vec<u32> {
    if !is_known() {
        return Vec::new();
    }
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        if let Some(below) = children.remove(pid) {
            found.extend(below);
        }
        next += 1;
    }
    found.split_off(1)
}

/// Whether /proc tells of our processes, by our numbers. In a namespace whose /proc was not mounted anew it tells of
/// others by the same numbers.
pub(super) fn is_known() -> bool {
    let us = fs::read_link("/proc/self");
    us.is_ok_and(|us| us.to_str() == Some(&std::process::id().to_string()))
}

/// This one and all below it.
pub(super) fn and(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    all.extend(of(root));
    all
}

/// All processes there are.
pub(super) fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Who is in this process group, also those that have ended and wait for their parents.
pub(super) fn in_group(group: u32) -> impl Iterator<Item = u32> {
    all().filter(move |pid| group_of(*pid) == Some(group))
}

/// Whether this process is below us, also one that has ended and waits for its parent. It is asked for upwards: in a
/// [list of all](of) one is missing whose parent ends while the list is made.
pub(super) fn is_below_us(pid: u32) -> bool {
    /// Each time somebody on the way up has just ended, the way is another one.
    const TIMES: usize = 5;
    let us = std::process::id();
    if !is_known() {
        // All that there are belong to the first.
        return us == 1;
    }
    for _ in 0..TIMES {
        let mut on_the_way = pid;
        loop {
            match stat_of(on_the_way) {
                Some((_, parent)) if parent == us => return true,
                Some((_, 0)) => return false,
                Some((_, parent)) => on_the_way = parent,
                None if on_the_way == pid => return false,
                None => break,
            }
        }
    }
    false
}

/// Has a process go on that is suspended, as by SIGSTOP. No other hears of it.
pub(super) fn wake(pid: u32) {
    if is_known() && stat_of(pid).is_some_and(|(state, _)| state == 'T') {
        sys::kill(pid, Signal::CONT);
    }
}

/// `None` for one that is gone, and for a zombie: it only waits for its parent.
fn parent_of(pid: u32) -> Option<u32> {
    let (state, parent) = stat_of(pid)?;
    (state != 'Z' && state != 'X').then_some(parent)
}

/// Its state and its parent.
fn stat_of(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold any character; what follows the last one does not.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?.chars().next()?;
    Some((state, rest.next()?.parse().ok()?))
}

fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the state and the parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

/// With what a process has ended that its parent has not waited for yet, as the parent will be told.
pub(super) fn status_of(pid: u32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit_once(") ")?.1.trim_end();
    rest.starts_with('Z')
        .then(|| rest.rsplit(' ').next()?.parse().ok())?
}

/// The name of a process, for people.
pub(super) fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_descend_from_our_parent() {
        let us = std::process::id();
        let parent = parent_of(us).unwrap();
        assert!(of(parent).contains(&us));
        assert!(!is_below_us(us) && !is_below_us(parent));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // While it runs, and when it has ended.
        assert!(is_below_us(child.id()));
        child.wait().unwrap();
        assert!(!is_below_us(child.id()));
        assert_eq!(and(us)[0], us);
        let group = group_of(us).unwrap();
        assert!(in_group(group).any(|pid| pid == us));
    }
}
