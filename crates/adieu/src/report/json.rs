//! The report for machines: one versioned JSON object, and its way into a file.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use adieu_os::file::{self, Readers};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Value, json};

use super::notice::Notice;
use super::report::{ComponentReport, LostWork, PhaseReport, Report};
use crate::util::printable::is_hidden;

/// Fields may be added under one version; a change of meaning makes a new one.
const VERSION: u32 = 1;

pub(crate) fn millis(duration: Duration) -> Value {
    // Microseconds matter for phases that take none of them; more digits are noise.
    let micros = u32::try_from(duration.as_micros()).map_or(duration.as_micros() as f64, f64::from);
    json!(micros / 1_000.0)
}

/// JSON on lines of its own, with an end. What would do something to a terminal is escaped, and means the same.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Escaping(PrettyFormatter::new()));
    // Writing to memory cannot fail, and every key of a value is a string.
    let _ = value.serialize(&mut serializer);
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

struct Escaping(PrettyFormatter<'static>);

macro_rules! as_pretty {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$method(writer $(, $argument)*)
        })*
    };
}

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(is_hidden) {
            to.write_all(&rest.as_bytes()[..at])?;
            let found = rest[at..].chars().next().unwrap_or_default();
            write!(to, "\\u{:04x}", u32::from(found))?;
            rest = &rest[at + found.len_utf8()..];
        }
        to.write_all(rest.as_bytes())
    }

    as_pretty! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

impl Report {
    /// The report as one JSON object of version 1.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = adieu::scope("orders")
    ///     .run(async |app| {
    ///         app.task("once", |_stop| async {});
    ///         Ok(())
    ///     })
    ///     .await;
    /// let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    /// assert_eq!(json["version"], 1);
    /// assert_eq!(json["exit_code"], 0);
    /// assert_eq!(json["parts"][0]["outcome"], "finished");
    /// # }
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        pretty(&self.to_value())
    }

    pub(crate) fn to_value(&self) -> Value {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "version": VERSION,
            "service": self.service,
            "pid": std::process::id(),
            "started_unix_ms": millis(started),
            "uptime_ms": millis(self.uptime),
            "exit_code": self.exit_code(),
            "exit": self.meaning(),
            "cause": self.cause.as_ref().map(ToString::to_string),
            "problem": self.problem,
            "grace_ms": millis(self.grace),
            "took_ms": millis(self.took),
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "lost": self.lost.iter().map(loss).collect::<Vec<_>>(),
            "lost_unnamed": self.lost_unnamed,
            "blocked": self.blocked,
            "timeline": self.timeline.iter().map(|(at, notice)| self.entry(*at, notice)).collect::<Vec<_>>(),
            "omitted": self.omitted,
        })
    }

    fn entry(&self, at: Duration, notice: &Notice) -> Value {
        let mut value = entry(at, notice);
        if let Notice::Ended { .. } = notice {
            value["exit_code"] = self.exit_code().into();
        }
        value
    }

    /// Writes the report so that a reader sees all of it or the file before, never a part; mode 0600. A link is replaced
    /// and not followed. A pipe or a device is written to as it is, and so are `/dev/stdout` and its like; a pipe that no
    /// process reads is an error.
    ///
    /// It is not forced to the disk: no process ends before its last system call does, so a disk that is slow to
    /// answer would hold the end up for longer than the grace period allows.
    ///
    /// # Errors
    /// If the file or its directory cannot be written to; [`Report::check_file`] says so beforehand.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        file::write(path, self.to_json().as_bytes(), Readers::Owner)
    }

    /// Finds out at the start whether a report can be [written](Self::write_to) there at the end. Nothing that is there
    /// is changed.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check_file(path: &Path) -> io::Result<()> {
        file::check(path)
    }
}

fn phase(phase: &PhaseReport) -> Value {
    json!({
        "phase": phase.phase.name(),
        "began_ms": millis(phase.began),
        "took_ms": millis(phase.took),
        "budget_ms": millis(phase.budget),
    })
}

fn part(part: &ComponentReport) -> Value {
    json!({
        "name": part.name,
        "kind": part.kind.name(),
        "outcome": part.outcome.name(),
        "place": part.place,
        "age_ms": millis(part.age),
        "ending_ms": millis(part.ending),
        "restarts": part.restarts,
        "state": state(part.outcome, part.blocking),
        "failure": part.failure,
        "notes": part.notes,
    })
}

fn loss(loss: &LostWork) -> Value {
    json!({
        "name": loss.name,
        "outcome": loss.outcome.name(),
        "place": loss.place,
        "count": loss.count,
        "age_ms": millis(loss.age),
        "state": state(loss.outcome, loss.blocking),
        "failure": loss.failure,
    })
}

fn state(outcome: adieu_lifecycle::Outcome, blocking: bool) -> Option<&'static str> {
    (outcome == adieu_lifecycle::Outcome::Abandoned).then_some(if blocking {
        "blocking"
    } else {
        "waiting"
    })
}

fn entry(at: Duration, notice: &Notice) -> Value {
    let mut value = match notice {
        Notice::Opening { part } => json!({"event": "opening", "part": &**part}),
        Notice::OpenRetry {
            part,
            attempts,
            delay,
            failure,
            ..
        } => {
            json!({"event": "open retry", "part": &**part, "attempts": attempts, "delay_ms": millis(*delay), "failure": failure})
        }
        Notice::Opened { part } => json!({"event": "opened", "part": &**part}),
        Notice::Running => json!({"event": "running"}),
        Notice::Stopping { cause } => json!({"event": "stopping", "cause": cause.to_string()}),
        Notice::Phase { phase, budget } => {
            json!({"event": "phase", "phase": phase.name(), "budget_ms": millis(*budget)})
        }
        Notice::Closing { part, kind } => {
            json!({"event": "closing", "part": &**part, "kind": kind.name()})
        }
        Notice::Settled {
            part,
            kind,
            outcome,
            ..
        } => {
            json!({"event": outcome.name(), "part": &**part, "kind": kind.name()})
        }
        Notice::SetupFailed { failure } => json!({"event": "setup failed", "failure": failure}),
        Notice::Restarting {
            part,
            restarts,
            delay,
            failure,
            ..
        } => {
            json!({"event": "restarting", "part": &**part, "restarts": restarts, "delay_ms": millis(*delay), "failure": failure})
        }
        Notice::Restarted { part, restarts, .. } => {
            json!({"event": "restarted", "part": &**part, "restarts": restarts})
        }
        Notice::ChildFailed {
            task,
            place,
            failure,
        } => {
            json!({"event": "failed", "task": task, "place": place, "failure": failure})
        }
        Notice::ChildCancelled { task, place, count } => {
            json!({"event": "cancelled", "task": task, "place": place, "count": count})
        }
        Notice::ChildAbandoned {
            task,
            place,
            count,
            blocking,
        } => {
            json!({"event": "abandoned", "task": task, "place": place, "count": count, "blocking": blocking})
        }
        Notice::Blocked {
            task,
            place,
            lasted,
            ongoing,
        } => {
            json!({"event": "blocked", "task": task, "place": place, "lasted_ms": millis(*lasted), "ongoing": ongoing})
        }
        Notice::Reloaded { parts } => {
            let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
            json!({"event": "reloaded", "parts": parts})
        }
        Notice::ReloadRefused { part, failure } => {
            json!({"event": "reload refused", "part": &**part, "failure": failure})
        }
        Notice::RollbackFailed { part, failure } => {
            json!({"event": "rollback failed", "part": &**part, "failure": failure})
        }
        Notice::RunFailed { job, failure } => {
            json!({"event": "run failed", "job": &**job, "failure": failure})
        }
        Notice::SignalFailed { signal, failure } => {
            json!({"event": "signal failed", "signal": signal.to_string(), "failure": failure})
        }
        Notice::AdminExposed { address } => {
            json!({"event": "admin exposed", "address": address.to_string()})
        }
        Notice::GraceTooLong {
            platform,
            grace,
            kills_after,
        } => {
            json!({"event": "grace too long", "platform": platform.name(), "grace_ms": millis(*grace), "kills_after_ms": millis(*kills_after)})
        }
        Notice::PanicAborts => json!({"event": "panic aborts"}),
        Notice::GraceCut {
            signal,
            grace,
            kills_after,
        } => {
            json!({"event": "grace cut", "signal": signal.name(), "grace_ms": millis(*grace), "kills_after_ms": millis(*kills_after)})
        }
        Notice::Inherited {
            part,
            from,
            elsewhere,
        } => {
            let (address, asked) = elsewhere.clone().unzip();
            json!({"event": "inherited", "part": &**part, "from": from, "address": address, "asked": asked})
        }
        Notice::Unclaimed { name, descriptor } => {
            json!({"event": "unclaimed", "name": name, "descriptor": descriptor})
        }
        Notice::HandOffBegun { pid, command } => {
            json!({"event": "hand-off begun", "pid": pid, "command": command})
        }
        Notice::HandOffFailed { why } => json!({"event": "hand-off failed", "why": why}),
        Notice::HandOffRefused { why } => json!({"event": "hand-off refused", "why": why}),
        Notice::HandedOver { pid } => json!({"event": "handed over", "pid": pid}),
        Notice::TookOver { pid } => json!({"event": "took over", "pid": pid}),
        Notice::Ended { exit } => json!({"event": "ended", "exit_code": exit.code()}),
    };
    value["at_ms"] = millis(at);
    value
}
