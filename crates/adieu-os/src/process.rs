//! Processes, as /proc lists them.

use std::fs;

/// What the kernel says of one process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessStat {
    /// Its number.
    pub pid: u32,
    /// The name of its program, at most 15 bytes of it.
    pub name: String,
    /// One letter: `R` runs, `S` sleeps, `T` is suspended, `Z` has ended and waits for its parent.
    pub state: char,
    /// The process that started it, or that adopted it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// In ticks since the start of the machine: with the number, this names a process for good.
    pub started: u64,
    /// What its parent will be told, of a process that has ended; as from `wait`.
    pub wait_status: Option<i32>,
}

impl ProcessStat {
    /// None if there is no such process.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        // A name may hold any bytes.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// `pid (name) state parent …`, where a name may have spaces and parentheses of its own.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        Some(Self {
            pid,
            name: name.to_owned(),
            state,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            wait_status: match state {
                'Z' => fields.last()?.parse().ok(),
                _ => None,
            },
        })
    }

    /// Whether it has ended, and only its number is left.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The numbers of all processes.
pub fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether /proc tells of our processes, by our numbers. In a namespace whose /proc was not mounted anew it tells of
/// others by the same numbers.
#[must_use]
pub fn is_mounted() -> bool {
    let us = fs::read_link("/proc/self");
    us.is_ok_and(|us| us.to_str() == Some(&std::process::id().to_string()))
}

/// The name of the program of a process.
#[must_use]
pub fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// Whether it was started with such a pair, as in `NAME=value`, in its environment. Of a process of another user nothing
/// can be read.
pub fn has_in_environment(pid: u32, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_fields_behind_it() {
        let stat = "7 (a) S (b) Z 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 9\n";
        let process = ProcessStat::parse(7, stat).expect("a process");
        assert_eq!(process.name, "a) S (b");
        assert_eq!((process.parent, process.group, process.session), (3, 5, 6));
        assert_eq!((process.started, process.wait_status), (99, Some(9)));
        assert!(process.has_ended());
        assert_eq!(ProcessStat::parse(7, "7 (a) S 3"), None);
        assert_eq!(ProcessStat::parse(7, ""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_there() {
        let us = std::process::id();
        let stat = ProcessStat::of(us).expect("it runs");
        assert_eq!(
            (stat.pid, stat.has_ended(), stat.wait_status),
            (us, false, None)
        );
        assert!(is_mounted());
        assert!(all().any(|pid| pid == us));
        assert_eq!(name(us).as_deref(), Some(stat.name.as_str()));
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        let (key, value) = std::env::vars().next().expect("a variable");
        let pair = format!("{key}={value}");
        assert!(has_in_environment(us, |one| one == pair.as_bytes()));
        assert!(!has_in_environment(us, |one| one == b"ADIEU_NO=such"));
    }
}
