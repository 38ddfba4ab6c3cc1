//! What runs the process, and how long the platform will wait for it to stop.

#[cfg(unix)]
pub(crate) mod systemd;

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::util::duration;

/// What runs the process, as far as it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Platform {
    /// Nothing that is known.
    Plain,
    /// A person at a terminal.
    Terminal,
    /// A systemd unit.
    Systemd,
    /// A container of docker, podman or their like.
    Container,
    /// A Kubernetes pod.
    Kubernetes,
    /// A service or a job of Google Cloud Run.
    CloudRun,
    /// A machine of Fly.io.
    Fly,
    /// A task of Amazon ECS, on Fargate or on EC2.
    Ecs,
    /// An allocation of HashiCorp Nomad.
    Nomad,
}

/// What can be seen of the surroundings.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    kubernetes: bool,
    cloud_run: bool,
    fly: bool,
    ecs: bool,
    nomad: bool,
    container: bool,
    systemd: bool,
    terminal: bool,
}

impl Signs {
    fn look() -> Self {
        let is_set = |name| std::env::var_os(name).is_some();
        let is_ours =
            |name| std::env::var(name).is_ok_and(|pid| pid.parse() == Ok(std::process::id()));
        Self {
            kubernetes: is_set("KUBERNETES_SERVICE_HOST"),
            cloud_run: is_set("K_SERVICE") && is_set("K_REVISION") || is_set("CLOUD_RUN_JOB"),
            fly: is_set("FLY_MACHINE_ID"),
            ecs: is_set("ECS_CONTAINER_METADATA_URI_V4"),
            nomad: is_set("NOMAD_ALLOC_ID"),
            container: Path::new("/.dockerenv").exists()
                || Path::new("/run/.containerenv").exists()
                || is_set("container"),
            // The id of the invocation alone is inherited by every shell below a unit.
            systemd: is_ours("SYSTEMD_EXEC_PID")
                || is_set("INVOCATION_ID") && is_set("NOTIFY_SOCKET"),
            terminal: std::io::stdin().is_terminal(),
        }
    }
}

impl Platform {
    /// All there are.
    pub const ALL: &'static [Self] = &[
        Self::Plain,
        Self::Terminal,
        Self::Systemd,
        Self::Container,
        Self::Kubernetes,
        Self::CloudRun,
        Self::Fly,
        Self::Ecs,
        Self::Nomad,
    ];

    /// The platform of this [name](Self::name).
    ///
    /// ```
    /// use adieu::platform::Platform;
    ///
    /// assert_eq!(Platform::from_name("cloud-run"), Some(Platform::CloudRun));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.name() == name).copied()
    }

    /// Looks at the environment and at a few well-known files.
    ///
    /// ```
    /// println!("at home on {}", adieu::platform::Platform::detect());
    /// ```
    #[must_use]
    pub fn detect() -> Self {
        Self::from(Signs::look())
    }

    const fn from(signs: Signs) -> Self {
        match signs {
            Signs {
                kubernetes: true, ..
            } => Self::Kubernetes,
            Signs {
                cloud_run: true, ..
            } => Self::CloudRun,
            Signs { fly: true, .. } => Self::Fly,
            Signs { ecs: true, .. } => Self::Ecs,
            Signs { nomad: true, .. } => Self::Nomad,
            Signs {
                container: true, ..
            } => Self::Container,
            Signs { systemd: true, .. } => Self::Systemd,
            Signs { terminal: true, .. } => Self::Terminal,
            _ => Self::Plain,
        }
    }

    /// The platform's name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Terminal => "terminal",
            Self::Systemd => "systemd",
            Self::Container => "container",
            Self::Kubernetes => "kubernetes",
            Self::CloudRun => "cloud-run",
            Self::Fly => "fly",
            Self::Ecs => "ecs",
            Self::Nomad => "nomad",
        }
    }

    /// Whether this platform asks a process to stop with SIGINT, if not configured otherwise.
    #[must_use]
    pub const fn stops_with_interrupt(self) -> bool {
        matches!(self, Self::Fly | Self::Nomad)
    }

    /// After how long this platform kills what it has asked to stop, unless configured otherwise. A process
    /// cannot see that from inside.
    #[must_use]
    pub const fn kills_after(self) -> Option<Duration> {
        match self {
            Self::Plain | Self::Terminal => None,
            Self::Systemd => Some(Duration::from_secs(90)),
            Self::Container | Self::CloudRun => Some(Duration::from_secs(10)),
            Self::Fly | Self::Nomad => Some(Duration::from_secs(5)),
            Self::Kubernetes | Self::Ecs => Some(Duration::from_secs(30)),
        }
    }

    /// The setting for it.
    const fn setting(self) -> &'static str {
        match self {
            Self::Plain | Self::Terminal => "its timeout",
            Self::Systemd => "TimeoutStopSec=",
            Self::Container => "`docker stop --time` or stop_grace_period",
            Self::Kubernetes => "terminationGracePeriodSeconds",
            Self::CloudRun => "its timeout",
            Self::Fly => "kill_timeout (300 s at most)",
            Self::Ecs => "stopTimeout (120 s at most on Fargate)",
            Self::Nomad => "kill_timeout (max_kill_timeout of the client at most)",
        }
    }

    /// A grace period that ends before the platform kills.
    const fn grace(self) -> Duration {
        match self {
            Self::Container | Self::CloudRun => Duration::from_secs(8),
            Self::Fly | Self::Nomad => Duration::from_secs(4),
            _ => Duration::from_secs(25),
        }
    }

    /// How long to go on serving once readiness is off. Kubernetes takes a pod out of its Services and sends SIGTERM at
    /// the same moment; until every node has updated its endpoints, new connections still arrive.
    const fn lame_duck(self) -> Duration {
        match self {
            Self::Kubernetes => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a grace is too long, and what to do.
pub(crate) fn too_long(platform: Platform, grace: Duration, kills_after: Duration) -> String {
    if platform == Platform::CloudRun {
        return format!(
            "a stop may take {}, but {platform} kills after {}, which cannot be changed: shorten the grace",
            duration::show(grace),
            duration::show(kills_after),
        );
    }
    format!(
        "a stop may take {}, but {platform} kills after {}: shorten the grace, or make {} longer and say so with \
         ADIEU_KILL_AFTER",
        duration::show(grace),
        duration::show(kills_after),
        platform.setting()
    )
}

/// What of the time until the platform kills can be used: the last tenth is for the report and the exit.
pub(crate) fn usable(kills_after: Duration) -> Duration {
    kills_after * 9 / 10
}

/// The times that the surroundings set. A [service](crate::service()) looks by itself; this is for a program that owns its
/// process and runs a [scope](crate::scope()) in it, as `adieu run` does.
///
/// ```
/// let surroundings = adieu::platform::DetectedPlatform::look()?;
/// let grace = surroundings.default_grace();
/// assert_eq!(surroundings.objection(grace), None);
/// # Ok::<(), adieu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectedPlatform {
    pub(crate) platform: Platform,
    /// When the platform kills, and whether that was said and is not only its custom.
    pub(crate) kills_after: Option<(Duration, bool)>,
}

impl DetectedPlatform {
    /// What can be seen, and `ADIEU_KILL_AFTER`, which says what cannot.
    ///
    /// # Errors
    /// If that variable is not a duration.
    pub fn look() -> Result<Self, Error> {
        Self::of(Platform::detect())
    }

    /// The times of a platform that was named, and `ADIEU_KILL_AFTER`.
    ///
    /// # Errors
    /// If that variable is not a duration.
    pub fn of(platform: Platform) -> Result<Self, Error> {
        let said = duration::from_variable("ADIEU_KILL_AFTER").map_err(Error::config)?;
        Ok(Self::new(platform, said))
    }

    fn new(platform: Platform, said: Option<Duration>) -> Self {
        Self {
            platform,
            kills_after: said
                .map(|said| (said, true))
                .or(platform.kills_after().map(|custom| (custom, false))),
        }
    }

    /// For a scope, which does not own its process: a platform does not kill it alone, and a cluster sends no clients to it.
    pub(crate) fn of_a_scope() -> Self {
        let platform = match Platform::detect() {
            Platform::Kubernetes => Platform::Plain,
            other => other,
        };
        Self {
            platform,
            kills_after: None,
        }
    }

    /// After how long the platform kills, if that was configured.
    pub(crate) fn said(self) -> Option<Duration> {
        self.kills_after
            .filter(|(_, said)| *said)
            .map(|(kills_after, _)| kills_after)
    }

    /// The default grace period on this platform.
    #[must_use]
    pub fn default_grace(self) -> Duration {
        match self.kills_after {
            Some((said, true)) => (said * 5 / 6).max(Duration::from_millis(1)),
            _ => self.platform.grace(),
        }
    }

    /// The default lame-duck period on this platform: a quarter of the grace period at most.
    #[must_use]
    pub fn default_lame_duck(self, grace: Duration) -> Duration {
        self.platform.lame_duck().min(grace / 4)
    }

    /// A warning, if the platform would send SIGKILL before `grace` is over.
    #[must_use]
    pub fn objection(self, grace: Duration) -> Option<String> {
        let kills_after = self.kills_before(grace)?;
        Some(too_long(self.platform, grace, kills_after))
    }

    /// The time after which the platform kills, if a stop that uses its whole grace would not live to see it.
    pub(crate) fn kills_before(self, grace: Duration) -> Option<Duration> {
        let (kills_after, said) = self.kills_after?;
        // A unit with notifications sends EXTEND_TIMEOUT_USEC, so systemd waits longer.
        let is_told = self.platform == Platform::Systemd
            && !said
            && std::env::var_os("NOTIFY_SOCKET").is_some();
        (grace >= kills_after && !is_told).then_some(kills_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_strongest_sign_counts() {
        let mut signs = Signs::default();
        assert_eq!(Platform::from(signs), Platform::Plain);
        signs.terminal = true;
        assert_eq!(Platform::from(signs), Platform::Terminal);
        signs.systemd = true;
        assert_eq!(Platform::from(signs), Platform::Systemd);
        signs.container = true;
        assert_eq!(Platform::from(signs), Platform::Container);
        signs.nomad = true;
        assert_eq!(Platform::from(signs), Platform::Nomad);
        signs.ecs = true;
        assert_eq!(Platform::from(signs), Platform::Ecs);
        signs.fly = true;
        assert_eq!(Platform::from(signs), Platform::Fly);
        signs.cloud_run = true;
        assert_eq!(Platform::from(signs), Platform::CloudRun);
        signs.kubernetes = true;
        assert_eq!(Platform::from(signs), Platform::Kubernetes);
    }

    #[test]
    fn the_default_grace_is_shorter_than_the_platform_waits() {
        for &platform in Platform::ALL {
            let surroundings = DetectedPlatform::new(platform, None);
            let grace = surroundings.default_grace();
            assert_eq!(surroundings.kills_before(grace), None, "{platform}");
            assert!(surroundings.default_lame_duck(grace) < grace);
        }
        assert_eq!(Platform::Plain.grace(), seconds(25));
    }

    #[test]
    fn every_platform_is_found_by_its_name() {
        for platform in Platform::ALL {
            assert_eq!(Platform::from_name(platform.name()), Some(*platform));
        }
        assert_eq!(Platform::from_name("heroku"), None);
    }

    #[test]
    fn a_warning_names_the_setting_unless_there_is_none() {
        let warning = |platform| {
            let detected = DetectedPlatform::new(platform, None);
            detected.objection(seconds(60)).unwrap_or_default()
        };
        assert!(warning(Platform::Fly).contains("kill_timeout (300 s at most)"));
        assert!(warning(Platform::Ecs).contains("stopTimeout"));
        assert!(warning(Platform::CloudRun).contains("cannot be changed: shorten the grace"));
    }

    #[test]
    fn what_was_said_counts_more_than_custom() {
        let patient = DetectedPlatform::new(Platform::Kubernetes, Some(seconds(60)));
        assert_eq!(patient.default_grace(), seconds(50));
        assert_eq!(patient.kills_before(seconds(59)), None);
        assert_eq!(patient.kills_before(seconds(60)), Some(seconds(60)));
        let custom = DetectedPlatform::new(Platform::Kubernetes, None);
        assert_eq!(custom.kills_before(seconds(59)), Some(seconds(30)));
        let plain = DetectedPlatform::new(Platform::Plain, None);
        assert_eq!(plain.kills_before(seconds(3_600)), None);
    }

    #[test]
    fn only_kubernetes_has_a_lame_duck_and_it_leaves_time() {
        for &platform in Platform::ALL {
            let lame_duck = DetectedPlatform::new(platform, None).default_lame_duck(seconds(25));
            assert_eq!(lame_duck.is_zero(), platform != Platform::Kubernetes);
        }
        let kubernetes = DetectedPlatform::new(Platform::Kubernetes, None);
        assert_eq!(kubernetes.default_lame_duck(seconds(25)), seconds(5));
        assert_eq!(kubernetes.default_lame_duck(seconds(4)), seconds(1));
    }
}
