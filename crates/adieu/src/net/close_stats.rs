//! Connections that had to be closed: counted by their state, and named, for the report.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many are named of those without a request in flight; there can be thousands.
const MAX_NAMED_IDLE: usize = 3;
/// So many of all others together: no client must be able to fill the report.
const MAX_NAMED_BUSY: usize = 100;
/// No descriptor for this one, and none for the next: so long it is the same shortage, though one was free in between. The same
/// for connections that are refused.
const SAME_SHORTAGE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct CloseStats {
    /// By limits of the running server. Only counted: what matters in the report is the stop.
    before: BTreeMap<&'static str, u64>,
    idle: BTreeMap<&'static str, ClosedGroup>,
    busy: BTreeMap<&'static str, ClosedGroup>,
    named: usize,
    /// No descriptor was left for a connection.
    descriptors: Shortage,
    /// All places were taken.
    places: Shortage,
    /// Connections were closed before their first byte was handled.
    refusals: Shortage,
}

/// How often there was too little of something.
#[derive(Default)]
struct Shortage {
    times: u64,
    /// When that was last so.
    last: Option<Instant>,
}

impl Shortage {
    /// Whether this is a new shortage, and not the last one going on.
    fn is_new(&mut self) -> bool {
        let now = Instant::now();
        let last = self.last.replace(now);
        let is_news = last.is_none_or(|last| now - last > SAME_SHORTAGE);
        self.times += u64::from(is_news);
        is_news
    }

    fn note(&self, what: &str) -> Option<String> {
        let times = if self.times == 1 { "time" } else { "times" };
        let note = || format!("{what} {} {times}: connections had to wait", self.times);
        (self.times > 0).then(note)
    }
}

#[derive(Default)]
struct ClosedGroup {
    count: u64,
    named: Vec<String>,
}

impl CloseStats {
    /// No descriptor is left for a connection. Whether this is a new shortage.
    pub(super) fn is_short(&mut self) -> bool {
        self.descriptors.is_new()
    }

    /// All places are taken, and a client waits for one. Whether this is a new shortage.
    pub(super) fn is_full(&mut self) -> bool {
        self.places.is_new()
    }

    /// A connection is refused. Whether it is the first for a while.
    pub(super) fn refuses(&mut self) -> bool {
        self.refusals.is_new()
    }

    pub(super) fn before_the_stop(&mut self, state: &'static str) {
        *self.before.entry(state).or_default() += 1;
    }

    pub(super) fn in_the_stop(
        &mut self,
        state: &'static str,
        is_idle: bool,
        who: impl FnOnce() -> String,
    ) {
        if is_idle {
            let group = self.idle.entry(state).or_default();
            group.count += 1;
            if group.named.len() < MAX_NAMED_IDLE {
                group.named.push(who());
            }
        } else {
            let group = self.busy.entry(state).or_default();
            group.count += 1;
            if self.named < MAX_NAMED_BUSY {
                self.named += 1;
                group.named.push(who());
            }
        }
    }

    pub(super) fn notes(self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.descriptors.note("short of descriptors"));
        notes.extend(self.places.note("all connections allowed were taken"));
        for (state, count) in self.before {
            notes.push(format!(
                "before the stop: closed {count} connection(s) {state}"
            ));
        }
        for (state, ClosedGroup { count, named }) in self.idle {
            let others = if count > named.len() as u64 {
                " and others"
            } else {
                ""
            };
            let named = named.join(", ");
            notes.push(format!(
                "closed {count} connection(s) {state}, from {named}{others}"
            ));
        }
        for (state, ClosedGroup { count, named }) in self.busy {
            let more = count - named.len() as u64;
            for who in named {
                notes.push(format!("closed 1 connection {state}, from {who}"));
            }
            if more > 0 {
                notes.push(format!("closed {more} more {state}"));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_limits_ended_before_takes_no_room_from_the_stop() {
        let mut closed = CloseStats::default();
        for _ in 0..1_000 {
            closed.before_the_stop("in the TLS handshake");
        }
        for port in 1..=10_000 {
            closed.in_the_stop("idle", true, || format!("10.0.0.1:{port}"));
        }
        for port in 1..=120 {
            let who = || format!("10.0.0.2:{port}, POST /upload for 2.0 s");
            closed.in_the_stop("with a stalled upload", false, who);
        }
        closed.in_the_stop("silent", true, || "10.0.0.3:7".to_owned());
        let notes = closed.notes();
        assert_eq!(
            notes[..4],
            [
                "before the stop: closed 1000 connection(s) in the TLS handshake",
                "closed 10000 connection(s) idle, from 10.0.0.1:1, 10.0.0.1:2, 10.0.0.1:3 and others",
                "closed 1 connection(s) silent, from 10.0.0.3:7",
                "closed 1 connection with a stalled upload, from 10.0.0.2:1, POST /upload for 2.0 s",
            ]
        );
        assert_eq!(notes.len(), 3 + MAX_NAMED_BUSY + 1);
        assert_eq!(
            notes.last().map(String::as_str),
            Some("closed 20 more with a stalled upload")
        );
    }
}
