//! How many connections have moved to the new process, and why others have not.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Why a connection is this process's own again.
#[derive(Debug)]
pub(crate) enum NotMoved {
    Refused(String),
    /// The new process is gone.
    Gone,
    NotSent(io::Error),
}

impl std::fmt::Display for NotMoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Gone => write!(f, "the new process is gone"),
            Self::NotSent(error) => write!(f, "not sent: {error}"),
        }
    }
}

/// What has moved from one server, for the report.
#[derive(Debug, Default)]
pub(crate) struct MoveStats {
    moved: BTreeMap<&'static str, u64>,
    longest: Duration,
    kept: BTreeMap<String, u64>,
    unanswered: u64,
}

/// So many reasons are kept apart: they come from another process.
const MAX_REASONS: usize = 8;

impl MoveStats {
    /// One that was in this state, and was not served since then, has moved or not.
    pub(crate) fn count(
        &mut self,
        state: &'static str,
        since: Instant,
        result: Result<(), NotMoved>,
    ) {
        match result {
            Ok(()) => {
                *self.moved.entry(state).or_default() += 1;
                self.longest = self.longest.max(since.elapsed());
            }
            Err(why) => {
                let why = why.to_string();
                let is_known = self.kept.contains_key(&why) || self.kept.len() < MAX_REASONS;
                let why = if is_known {
                    why
                } else {
                    "other reasons".to_owned()
                };
                *self.kept.entry(why).or_default() += 1;
            }
        }
    }

    /// The drain has ended before the new process had said whether it takes one.
    pub(crate) fn unanswered(&mut self) {
        self.unanswered += 1;
    }

    pub(crate) fn notes(&self, pid: u32) -> Vec<String> {
        let mut notes = Vec::new();
        let all: u64 = self.moved.values().sum();
        if all > 0 {
            let states: Vec<_> = self
                .moved
                .iter()
                .map(|(state, count)| format!("{count} {state}"))
                .collect();
            let longest = crate::util::duration::show(self.longest);
            let states = states.join(", ");
            notes.push(format!(
                "moved {all} connection(s) to process {pid}: {states}; longest pause {longest}"
            ));
        }
        for (why, count) in &self.kept {
            notes.push(format!("{count} connection(s) did not move: {why}"));
        }
        if self.unanswered > 0 {
            notes.push(format!(
                "{} connection(s) offered to process {pid}, which had not answered at the end of the drain",
                self.unanswered
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_has_moved_and_what_has_not() {
        let mut stats = MoveStats::default();
        let now = Instant::now();
        for state in ["idle", "silent", "idle"] {
            stats.count(state, now, Ok(()));
        }
        stats.longest = Duration::from_millis(2);
        stats.count("idle", now, Err(NotMoved::Refused("it is full".to_owned())));
        for number in 0..20 {
            stats.count("idle", now, Err(NotMoved::Refused(number.to_string())));
        }
        stats.unanswered();
        let notes = stats.notes(7);
        assert_eq!(
            notes[0],
            "moved 3 connection(s) to process 7: 2 idle, 1 silent; longest pause 2.0 ms"
        );
        assert!(
            notes.contains(&"1 connection(s) did not move: refused: it is full".to_owned()),
            "{notes:?}"
        );
        assert!(notes.len() <= MAX_REASONS + 3, "{notes:?}");
    }
}
