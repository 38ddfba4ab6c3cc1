//! The time of a stop: how much there is, what of it is the command's, and whether the platform grants it.

use std::time::Duration;

use adieu::platform::{DetectedPlatform, Platform};

use super::command::Environment;

/// How much earlier than `adieu run` a service of the library has to end: it is gone half a second after its grace
/// period, and gets the stop signal a moment late because its accept queue is drained first.
const SERVICE_MARGIN: Duration = Duration::from_secs(1);

/// The variables that pass its times to a service of the library.
const GRACE: &str = "ADIEU_GRACE";
const LAME_DUCK: &str = "ADIEU_LAME_DUCK";

#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    /// From the first moment to SIGKILL.
    pub(super) grace: Duration,
    pub(super) pre_stop: Duration,
    /// What is wrong with it on this platform.
    pub(super) objection: Option<String>,
    /// What the variable says that is the command's, if it says anything.
    own_grace: Option<String>,
    /// Whether the user has set the variable with the command's lame-duck period.
    has_lame_duck: bool,
}

impl Timeouts {
    pub(super) fn new(
        platform: Platform,
        grace: Option<Duration>,
        pre_stop: Option<Duration>,
    ) -> Result<Self, String> {
        let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
        let (said, own) = match (grace, variable(GRACE)) {
            (Some(grace), own) => (Some(grace), own),
            // One time for both is ours.
            (None, Some(text)) => {
                let time = adieu::parse_duration(&text);
                (Some(time.map_err(|it| format!("{GRACE}: {it}"))?), None)
            }
            (None, None) => (None, None),
        };
        let surroundings = DetectedPlatform::of(platform).map_err(|it| it.to_string())?;
        let grace = said.unwrap_or_else(|| surroundings.default_grace());
        if grace.is_zero() {
            return Err("--grace 0s leaves the command no time to end: give it some".to_owned());
        }
        let pre_stop = pre_stop.unwrap_or_else(|| surroundings.default_lame_duck(grace));
        if pre_stop >= grace {
            return Err(format!(
                "--pre-stop {pre_stop:?} leaves nothing of --grace {grace:?}: make the grace longer"
            ));
        }
        Ok(Self {
            grace,
            pre_stop,
            objection: surroundings.objection(grace),
            own_grace: own,
            has_lame_duck: variable(LAME_DUCK).is_some(),
        })
    }

    /// What is left for the command when it gets the stop signal.
    pub(super) fn left(&self) -> Duration {
        self.grace - self.pre_stop
    }

    /// Tells a command of its time, which is this part of all that is left.
    pub(super) fn announce(&self, environment: &mut Environment, levels: u32, cloak: bool) {
        let left = self.left() / levels;
        let theirs = left.saturating_sub(SERVICE_MARGIN).max(left / 2);
        let grace = match &self.own_grace {
            Some(own) => own.clone(),
            None => format!("{}ms", theirs.as_millis().max(1)),
        };
        environment.set(GRACE, grace);
        // We have waited already, or the socket refuses new connections: to wait again would only cost time.
        if !self.has_lame_duck && (cloak || !self.pre_stop.is_zero()) {
            environment.set(LAME_DUCK, "0s");
        }
    }
}
