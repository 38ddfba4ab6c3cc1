//! The checks, a file each.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitStatus;

use crate::context::CheckContext;
use crate::drill::Drill;
use crate::error::DrillError;
use crate::finding::Finding;
use crate::process::{Signal, ended_by};
use crate::report::Group;
use crate::threshold::Threshold;

mod as_pid_1;
mod backlog_served;
mod connection_close;
mod deploy_unnoticed;
mod exit_code;
mod exit_in_time;
mod fresh_connections;
mod group_signal;
mod h2_goaway;
mod half_head;
pub(crate) mod hints;
mod hung_handler;
mod hup_keeps_serving;
mod idle;
mod idle_keepalive;
mod inflight_finishes;
mod int_twice_forces;
mod keepalive_race;
mod listener_refuses;
mod live_while_draining;
mod no_orphans;
#[cfg(test)]
mod page;
mod pipelined;
mod port_free;
mod race;
mod ready_before_close;
mod restart;
mod resume;
mod rolling_restart;
mod signal_storm;
mod signals;
mod silent_connection;
mod slow_reader;
mod slow_upload;
mod sse_ends;
mod state_intact;
mod stream_whole;
mod term_at_start;
mod term_twice;
mod term_while_reloading;
mod under_shell;
mod websocket_1001;

/// What a check is.
pub(crate) struct Spec {
    /// Stable.
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    /// Whether it is among the few that say most in half a minute.
    pub(crate) quick: bool,
    /// One sentence.
    pub(crate) why: &'static str,
    /// What is done, and what is demanded.
    pub(crate) how: &'static str,
    /// When it is skipped.
    pub(crate) applies: &'static str,
    /// What is demanded if nothing else is said.
    pub(crate) threshold: fn(&Drill) -> Threshold,
    /// How to mend it, for a framework each.
    pub(crate) hints: &'static [(&'static str, &'static str)],
    pub(crate) run: for<'s> fn(&'s mut CheckContext<'_>) -> Trying<'s>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Spec").field(&self.id).finish()
    }
}

/// A running try of a check.
pub(crate) type Trying<'s> = Pin<Box<dyn Future<Output = Result<Finding, DrillError>> + Send + 's>>;

/// All checks, in the order in which they are run and shown.
pub(crate) const ALL: &[&Spec] = &[
    &inflight_finishes::SPEC,
    &listener_refuses::SPEC,
    &backlog_served::SPEC,
    &slow_upload::SPEC,
    &slow_reader::SPEC,
    &stream_whole::SPEC,
    &pipelined::SPEC,
    &connection_close::SPEC,
    &idle_keepalive::SPEC,
    &silent_connection::SPEC,
    &half_head::SPEC,
    &keepalive_race::SPEC,
    &fresh_connections::SPEC,
    &h2_goaway::SPEC,
    &websocket_1001::SPEC,
    &sse_ends::SPEC,
    &deploy_unnoticed::SPEC,
    &ready_before_close::SPEC,
    &live_while_draining::SPEC,
    &term_at_start::SPEC,
    &term_twice::SPEC,
    &int_twice_forces::SPEC,
    &signal_storm::SPEC,
    &group_signal::SPEC,
    &term_while_reloading::SPEC,
    &hup_keeps_serving::SPEC,
    &exit_code::SPEC,
    &exit_in_time::SPEC,
    &hung_handler::SPEC,
    &no_orphans::SPEC,
    &port_free::SPEC,
    &as_pid_1::SPEC,
    &under_shell::SPEC,
    &state_intact::SPEC,
    &resume::SPEC,
    &rolling_restart::SPEC,
];

/// Why a check without traffic of this kind is skipped.
pub(crate) const NO_HTTP: &str = "it does not speak HTTP";
pub(crate) const NO_HTTP_AT_TCP: &str = "it needs HTTP, and the program is spoken to at --tcp";
pub(crate) const NO_WORK: &str = "it has no address, and was given no work: --feed COMMAND gives it some, and --ledger \
                                  COMMAND shows what became of it";
pub(crate) const NO_ADDRESS: &str = "the program has no address";
pub(crate) const NO_SLOW: &str =
    "no path that answers late was found; give one with --slow \"/slow?ms={ms}\"";
pub(crate) const NO_RELOAD: &str = "SIGHUP is not said to mean a reload; say it with --reload";
pub(crate) const NO_TRAFFIC: &str =
    "no traffic can be put on it: it speaks no HTTP and does not send lines back";

pub(crate) const NEVER_KEEPS: &str = "the server closes the connection after every answer";

/// As a shell says it: 128 and its number for a signal.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| Some(128 + ended_by(status)?))
        .unwrap_or(-1)
}

/// Ended by a signal other than the one it was sent.
pub(crate) fn is_crash(status: ExitStatus, sent: Signal) -> bool {
    ended_by(status).is_some_and(|signal| signal != sent.as_raw())
}

/// A check as a person reads about it before it has run.
#[derive(Clone, Copy, Debug)]
pub struct CheckInfo {
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    pub(crate) quick: bool,
    pub(crate) why: &'static str,
    pub(crate) how: &'static str,
    pub(crate) applies: &'static str,
    pub(crate) threshold: fn(&Drill) -> Threshold,
    pub(crate) hints: &'static [(&'static str, &'static str)],
}

impl From<&'static Spec> for CheckInfo {
    fn from(spec: &'static Spec) -> Self {
        Self {
            id: spec.id,
            group: spec.group,
            quick: spec.quick,
            why: spec.why,
            how: spec.how,
            applies: spec.applies,
            threshold: spec.threshold,
            hints: spec.hints,
        }
    }
}

impl CheckInfo {
    /// Stable: `inflight-finishes`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.id
    }

    /// The promise it belongs to.
    #[must_use]
    pub const fn group(self) -> Group {
        self.group
    }

    /// Whether `--quick` runs it.
    #[must_use]
    pub const fn quick(self) -> bool {
        self.quick
    }

    /// Why it matters, one sentence.
    #[must_use]
    pub const fn why(self) -> &'static str {
        self.why
    }

    /// Whether this can be demanded of it.
    ///
    /// # Errors
    ///
    /// With a sentence, if it cannot.
    pub fn threshold(self, value: &str) -> Result<(), String> {
        let threshold = (self.threshold)(&Drill::command([""; 0]));
        let set = threshold.set(value);
        set.map(drop)
            .map_err(|why| format!("the threshold of {}: {why}", self.id))
    }

    /// All there is to know about it, as Markdown.
    #[must_use]
    pub fn page(self) -> String {
        let spec = self;
        let threshold = (spec.threshold)(&Drill::command([""; 0]));
        let mut page = format!(
            "# {}\n\n{}\n\nGroup: {}. {}\n\n## What is done\n\n{}\n\n## When it applies\n\n{}\n\n## What is demanded\n\n\
             {threshold}; change it with `--threshold {}=VALUE`.\n\n## How to fix it\n\n",
            spec.id,
            spec.why,
            spec.group,
            if spec.quick {
                "Part of --quick."
            } else {
                "Not part of --quick."
            },
            spec.how,
            spec.applies,
            spec.id,
        );
        for (framework, words) in spec.hints {
            let _ = writeln!(page, "- **{framework}**: {words}");
        }
        page
    }
}

/// What these checks demand, as changed by `set`; no other check may be named in it. They are those of an option.
pub(crate) fn thresholds_of(
    infos: &[CheckInfo],
    set: &[(String, String)],
    option: &str,
) -> Result<Vec<Threshold>, String> {
    for (id, _) in set {
        if !infos.iter().any(|check| check.id == *id) {
            let ids: Vec<&str> = infos.iter().map(|check| check.id).collect();
            return Err(format!(
                "--threshold: `{id}` is not a check of {option}; these are: {}",
                ids.join(", ")
            ));
        }
    }
    let nothing = Drill::command([""; 0]);
    let mut all = Vec::new();
    for check in infos {
        let mut threshold = (check.threshold)(&nothing);
        for (_, value) in set.iter().filter(|(id, _)| id == check.id) {
            let changed = threshold.set(value);
            threshold = changed.map_err(|why| format!("the threshold of {}: {why}", check.id))?;
        }
        all.push(threshold);
    }
    Ok(all)
}

/// All checks, in the order in which they are run.
pub fn checks() -> impl Iterator<Item = CheckInfo> {
    ALL.iter().copied().map(CheckInfo::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_page_and_an_id_of_its_own() {
        let mut ids: Vec<_> = checks().map(CheckInfo::id).collect();
        ids.sort_unstable();
        let total = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), total);
        for check in checks() {
            let spec = check;
            assert!(
                spec.why.ends_with('.') && !spec.hints.is_empty(),
                "{}",
                spec.id
            );
            assert!(check.page().contains(spec.how), "{}", spec.id);
        }
    }
}
