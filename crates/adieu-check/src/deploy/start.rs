//! What a container, a unit or a line of a Procfile starts, and how long that takes to stop.

use std::sync::Arc;

use super::command::{self, Told};
use super::programs::Programs;
use crate::finding::Step;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) path: Arc<str>,
    pub(crate) line: u32,
}

/// A variable of the environment, and where it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) at: Option<Spot>,
}

/// A command with its surroundings, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) words: Vec<String>,
    /// Where the words stand.
    pub(crate) at: Option<Spot>,
    /// The environment, the strongest first.
    pub(crate) variables: Vec<Variable>,
    /// The directory of the project that its files come from.
    pub(crate) folder: Option<String>,
    /// The Dockerfile of its image.
    pub(crate) dockerfile: Option<String>,
    /// Names of files in the image, and what they were called where they were built.
    pub(crate) copies: Vec<(String, String)>,
}

/// How long a started program takes to stop at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopTime {
    pub(crate) seconds: u64,
    who: &'static str,
    /// One of the well-known servers.
    pub(crate) is_server: bool,
    /// Where the code says that.
    pub(crate) step: Option<Step>,
}

impl Start {
    /// A command alone.
    pub(crate) fn of(words: Vec<String>) -> Start {
        Start {
            words: command::unshelled(words),
            ..Start::default()
        }
    }

    /// What a file of the image was called before it was copied there.
    pub(crate) fn before_copy<'s>(&'s self, name: &'s str) -> &'s str {
        self.copies
            .iter()
            .find(|(copied, _)| copied == name)
            .map_or(name, |(_, images)| images.as_str())
    }

    /// Whether celery is configured to take SIGTERM for its quick stop.
    pub(crate) fn stops_quickly(&self) -> bool {
        self.variables
            .iter()
            .any(|variable| variable.name == "REMAP_SIGTERM")
    }

    /// The grace of what is started: its flags before its environment, what the project is set to
    /// before what its code says. What is said and cannot be read is not guessed.
    pub(crate) fn own(&self, configured: Option<u64>, programs: &Programs<'_>) -> Option<StopTime> {
        let server = command::server(&self.words);
        let own = |seconds| StopTime {
            seconds,
            who: server.unwrap_or("the program"),
            is_server: server.is_some(),
            step: None,
        };
        let told = match server {
            Some("celery") if self.stops_quickly() => Told::Nothing,
            Some("celery") => command::time_limit(&self.words),
            _ => command::grace(&self.words),
        };
        match told {
            Told::Seconds(seconds) => return Some(own(seconds)),
            Told::Unclear => return None,
            Told::Nothing => {}
        }
        for variable in &self.variables {
            match command::grace_variable(&variable.name, &variable.value, server) {
                Told::Seconds(seconds) => return Some(own(seconds)),
                Told::Unclear => return None,
                Told::Nothing => {}
            }
        }
        if let Some(seconds) = configured {
            return Some(own(seconds));
        }
        programs.grace(self).map(|given| StopTime {
            seconds: given.seconds,
            who: server.unwrap_or(given.server),
            is_server: given.server != "the service",
            step: given.step,
        })
    }
}

impl StopTime {
    /// `gunicorn takes up to 60 s to stop`
    pub(crate) fn said(&self) -> String {
        format!("{} takes up to {} s to stop", self.who, self.seconds)
    }

    /// A service of adieu tells systemd how much longer it takes.
    pub(crate) fn extends_itself(&self) -> bool {
        self.who == "the service"
    }
}
