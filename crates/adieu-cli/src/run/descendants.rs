//! Who descends from whom, as /proc tells it.

use std::collections::HashMap;
use std::fs;

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

/// `None` for one that is gone, and for a zombie: it only waits for its parent.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold any character; what follows the last one does not.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
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
        assert_eq!(and(us)[0], us);
    }
}
