//! What deployment files start, and how long each platform waits between SIGTERM and SIGKILL.

use std::sync::Arc;

use super::start::{Spot, Start};
use crate::budget::{Bound, BudgetNode, Origin, Patience, Shape};
use crate::finding::Place;

/// A program that a deployment file starts.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// As the file calls it.
    pub(crate) name: String,
    pub(crate) at: Spot,
    pub(crate) start: Start,
    pub(crate) patience: Patience,
    /// What the platform does before the signal, in the same time.
    pub(crate) before: Option<BudgetNode>,
}

/// What a platform does by default.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) name: &'static str,
    pub(crate) setting: &'static str,
    pub(crate) seconds: u64,
    /// The most it allows, in seconds.
    pub(crate) most: Option<u64>,
    unit: &'static str,
    /// The signal it stops with, and the setting for another one.
    pub(crate) signal: &'static str,
    pub(crate) signal_setting: &'static str,
    /// What else helps where the signal reaches a shell alone.
    pub(crate) group_hint: &'static str,
}

/// What the platforms have in common.
const PLAIN: Platform = Platform {
    name: "",
    setting: "",
    seconds: 10,
    most: None,
    unit: "",
    signal: "SIGTERM",
    signal_setting: "",
    group_hint: "",
};

const COMPOSE: Platform = Platform {
    name: "docker compose",
    setting: "stop_grace_period",
    unit: "s",
    ..PLAIN
};

const DOCKER: Platform = Platform {
    name: "docker stop",
    setting: "docker run --stop-timeout",
    ..PLAIN
};

const KUBERNETES: Platform = Platform {
    name: "Kubernetes",
    setting: "terminationGracePeriodSeconds",
    seconds: 30,
    ..PLAIN
};

const SYSTEMD: Platform = Platform {
    name: "systemd",
    setting: "TimeoutStopSec",
    seconds: 90,
    ..PLAIN
};

const HEROKU: Platform = Platform {
    name: "Heroku",
    seconds: 30,
    most: Some(30),
    ..PLAIN
};

pub(crate) static FLY: Platform = Platform {
    name: "Fly.io",
    setting: "kill_timeout",
    seconds: 5,
    most: Some(300),
    signal: "SIGINT",
    signal_setting: "kill_signal = \"SIGTERM\"",
    ..PLAIN
};

pub(crate) static CLOUD_RUN: Platform = Platform {
    name: "Cloud Run",
    seconds: 10,
    most: Some(10),
    ..PLAIN
};

pub(crate) static ECS: Platform = Platform {
    name: "ECS",
    setting: "stopTimeout",
    seconds: 30,
    ..PLAIN
};

pub(crate) static FARGATE: Platform = Platform {
    name: "Fargate",
    setting: "stopTimeout",
    seconds: 30,
    most: Some(120),
    ..PLAIN
};

pub(crate) static NOMAD: Platform = Platform {
    name: "Nomad",
    setting: "kill_timeout",
    seconds: 5,
    unit: "s",
    signal: "SIGINT",
    signal_setting: "kill_signal = \"SIGTERM\"",
    ..PLAIN
};

pub(crate) static SUPERVISOR: Platform = Platform {
    name: "supervisord",
    setting: "stopwaitsecs",
    signal_setting: "stopsignal=TERM",
    group_hint: ", or set `stopasgroup=true`",
    ..PLAIN
};

impl Platform {
    /// How long it waits, by what a file says: nothing, a length that may not be clear.
    fn patience(&self, said: Option<(Bound, Spot)>, at: Option<(Arc<str>, u32)>) -> Patience {
        let (bound, origin) = match said {
            Some((bound, spot)) => (bound, said_at(spot)),
            None => (
                Bound::seconds(self.seconds),
                Origin::Default {
                    of: self.name.to_owned(),
                    at,
                },
            ),
        };
        Patience {
            platform: self.name,
            setting: self.setting,
            bound,
            origin,
            most: self.most,
            unit: self.unit,
        }
    }
}

pub(crate) fn compose(said: Option<(Option<u64>, Spot)>, service: Spot) -> Patience {
    COMPOSE.patience(said.map(clear), Some((service.path, service.line)))
}

pub(crate) fn docker() -> Patience {
    DOCKER.patience(None, None)
}

pub(crate) fn kubernetes(said: Option<(Option<u64>, Spot)>, container: Spot) -> Patience {
    KUBERNETES.patience(said.map(clear), Some((container.path, container.line)))
}

/// `infinity` and a service that asks for more time as it needs it are never killed.
pub(crate) fn systemd(said: Option<(Bound, Spot)>, start: Spot) -> Patience {
    SYSTEMD.patience(said, Some((start.path, start.line)))
}

/// A platform with a file of its own.
pub(crate) fn on(platform: &Platform, said: Option<(Option<u64>, Spot)>, start: Spot) -> Patience {
    platform.patience(said.map(clear), Some((start.path, start.line)))
}

pub(crate) fn heroku() -> Patience {
    HEROKU.patience(None, None)
}

/// What the platform runs before the signal, for so many seconds if that can be seen.
pub(crate) fn before(seconds: Option<u64>, spot: Spot) -> BudgetNode {
    let origin = said_at(spot);
    let bound = seconds.map_or(Bound::UNCLEAR, Bound::seconds);
    let mut node = BudgetNode::new("preStop, before the signal", origin, Shape::Takes(bound));
    node.setting = Some("preStop".to_owned());
    node
}

fn clear((seconds, spot): (Option<u64>, Spot)) -> (Bound, Spot) {
    (seconds.map_or(Bound::UNCLEAR, Bound::seconds), spot)
}

pub(crate) fn said_at(spot: Spot) -> Origin {
    Origin::Said {
        path: spot.path,
        place: Place::line(spot.line),
    }
}
