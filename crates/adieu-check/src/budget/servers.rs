//! What servers do while they stop, from the table beside this file.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::bound::Bound;
use crate::callgraph::Moment;

const TABLE: &str = include_str!("servers.toml");

/// One server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownServer {
    pub(super) seen: String,
    pub(super) flag: Option<String>,
    pub(super) variable: Option<String>,
    #[serde(default)]
    pub(super) unit: Unit,
    pub(super) setting: String,
    pub(super) steps: Vec<ServerStep>,
}

/// What a bare number of a flag counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Unit {
    #[default]
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Millis,
}

/// One step of its stop.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerStep {
    pub(super) what: String,
    #[serde(default)]
    pub(super) setting: bool,
    default: Option<Default>,
    /// The default on platforms, by their names, in seconds.
    #[serde(default)]
    default_on: BTreeMap<String, u64>,
    millis: Option<u64>,
    limit: Option<NoLimit>,
    #[serde(default)]
    unclear: bool,
    pub(super) hooks: Option<Moment>,
    #[serde(default)]
    pub(super) threads: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Default {
    Seconds(u64),
    None(NoLimit),
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum NoLimit {
    #[serde(rename = "no limit")]
    NoLimit,
}

impl ServerStep {
    /// How long it takes where nothing is set; nothing for a step that takes as long as its hooks.
    pub(super) fn default_bound(&self, platform: &str) -> Option<Bound> {
        if self.unclear {
            return Some(Bound::UNCLEAR);
        }
        if let Some(NoLimit::NoLimit) = self.limit {
            return Some(Bound::UNLIMITED);
        }
        if let Some(seconds) = self.default_on.get(platform) {
            return Some(Bound::seconds(*seconds));
        }
        match self.default {
            Some(Default::Seconds(seconds)) => Some(Bound::seconds(seconds)),
            Some(Default::None(NoLimit::NoLimit)) => Some(Bound::UNLIMITED),
            None => self.millis.map(Bound::millis),
        }
    }
}

/// All servers, by name.
pub(super) fn servers() -> &'static BTreeMap<String, KnownServer> {
    static SERVERS: OnceLock<BTreeMap<String, KnownServer>> = OnceLock::new();
    // A test reads the table, which is part of the program.
    SERVERS.get_or_init(|| toml::from_str(TABLE).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{TABLE, servers};
    use crate::budget::bound::Bound;

    #[test]
    fn the_table_is_read_whole() {
        let table: toml::Table = toml::from_str(TABLE).expect("a table");
        assert_eq!(servers().len(), table.len());
        assert!(servers().len() >= 10);
    }

    #[test]
    fn every_step_has_one_length() {
        for (name, server) in servers() {
            for step in &server.steps {
                let lengths = [
                    step.millis.is_some(),
                    step.setting,
                    step.limit.is_some(),
                    step.unclear,
                    step.hooks.is_some() && step.millis.is_none(),
                ];
                let count = lengths.iter().filter(|has| **has).count();
                assert_eq!(count, 1, "{name}: {}", step.what);
                assert_eq!(
                    step.setting,
                    step.default.is_some(),
                    "{name}: {}",
                    step.what
                );
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let default = |name: &str, at: usize| servers()[name].steps[at].default_bound("");
        assert_eq!(default("gunicorn", 1), Some(Bound::seconds(30)));
        assert_eq!(default("uvicorn", 1), Some(Bound::UNLIMITED));
        assert_eq!(default("uvicorn", 2), None);
        assert_eq!(
            servers()["adieu"].steps[0].default_bound("docker stop"),
            Some(Bound::seconds(8))
        );
        assert_eq!(
            servers()["adieu"].steps[0].default_bound("Fly.io"),
            Some(Bound::seconds(4))
        );
    }
}
