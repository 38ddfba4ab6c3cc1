//! Profiles of balancers: numbers with their sources, as TOML.

use std::fs;
use std::path::Path;
use std::time::Duration;

use adieu_load::{BalancerRules, Layer, RetryOn};
use serde::{Deserialize, Deserializer, de};

use crate::threshold::show;

/// How a balancer behaves, and where each number comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    #[serde(skip)]
    pub(crate) name: String,
    /// Whether its numbers configure a real balancer, and which.
    #[serde(skip)]
    pub(crate) real: Option<RealBalancer>,
    /// One line: what it is a profile of.
    pub(crate) about: String,
    balances: Balances,
    pub(crate) removal: Option<Removal>,
    pub(crate) health: Option<Health>,
    pub(crate) pool: Pool,
    pub(crate) retry: Option<Retry>,
    pub(crate) deregistration: Option<Deregistration>,
}

/// A program that the drill can start as the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealBalancer {
    Nginx,
    HaProxy,
}

impl RealBalancer {
    const ALL: [Self; 2] = [Self::Nginx, Self::HaProxy];

    /// What it is called, as a profile and as a program.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::HaProxy => "haproxy",
        }
    }

    /// The package of Debian that has it.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::Nginx => "nginx-light",
            Self::HaProxy => "haproxy",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Balances {
    Connections,
    Requests,
}

/// A control plane takes an instance whose stop has begun out of the routes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Removal {
    /// At the earliest so long after the stop has begun.
    #[serde(deserialize_with = "time")]
    pub(crate) delay: Duration,
    /// And at most so much later.
    #[serde(deserialize_with = "time")]
    pub(crate) spread: Duration,
    source: String,
}

impl Removal {
    /// After this long nothing new is sent.
    pub(crate) fn longest(&self) -> Duration {
        self.delay + self.spread
    }
}

/// The balancer asks each instance at this pace, and takes it out after so many failures in a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Health {
    #[serde(deserialize_with = "time")]
    pub(crate) every: Duration,
    pub(crate) failures: u32,
    source: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Pool {
    pub(crate) connections: usize,
    #[serde(default = "hour", deserialize_with = "time")]
    pub(crate) idle_timeout: Duration,
    source: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Retry {
    times: u32,
    on: Vec<On>,
    source: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum On {
    Refused,
    Reused,
    Reset,
}

/// Idle connections to an instance that was taken out are closed after this time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Deregistration {
    #[serde(deserialize_with = "time")]
    pub(crate) delay: Duration,
    source: String,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    adieu_duration::parse_duration(&text).map_err(de::Error::custom)
}

const fn hour() -> Duration {
    Duration::from_secs(3_600)
}

const BUILT_IN: [(&str, &str); 7] = [
    ("kube-proxy", include_str!("profiles/kube-proxy.toml")),
    ("alb", include_str!("profiles/alb.toml")),
    ("nlb", include_str!("profiles/nlb.toml")),
    ("nginx", include_str!("profiles/nginx.toml")),
    ("haproxy", include_str!("profiles/haproxy.toml")),
    ("envoy", include_str!("profiles/envoy.toml")),
    ("none", include_str!("profiles/none.toml")),
];

impl Profile {
    /// The profile of this name, or in this file. With `:real` after the name, as in `nginx:real`, its numbers configure
    /// that program, and nothing is simulated.
    ///
    /// # Errors
    ///
    /// With the names that there are, or with the line that is wrong in the file.
    pub fn find(name: &str) -> Result<Self, String> {
        let Some(plain) = name.strip_suffix(":real") else {
            return Self::simulated(name);
        };
        if cfg!(not(unix)) {
            return Err(format!(
                "--behind {name}: a real balancer runs on Unix only"
            ));
        }
        let real = RealBalancer::ALL
            .into_iter()
            .find(|real| real.program() == plain);
        let Some(real) = real else {
            return Err(format!(
                "--behind {name}: only nginx:real and haproxy:real are started; the other profiles are simulated"
            ));
        };
        let profile = Self::simulated(plain)?;
        Ok(Self {
            name: name.to_owned(),
            about: format!("real, configured as {}", profile.about),
            real: Some(real),
            ..profile
        })
    }

    fn simulated(name: &str) -> Result<Self, String> {
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        let text = match built_in {
            Some((_, text)) => (*text).to_owned(),
            None if name.contains(['/', '.']) => {
                let path = Path::new(name);
                fs::read_to_string(path).map_err(|error| format!("--behind {name}: {error}"))?
            }
            None => {
                let names = BUILT_IN.map(|(name, _)| name).join(", ");
                return Err(format!(
                    "--behind: there is no profile `{name}`; there are {names}, nginx:real and haproxy:real, or the path of a file of your own"
                ));
            }
        };
        let mut profile: Self = toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("--behind {name}, line {line}: {}", error.message())
        })?;
        if profile.removal.is_none() && profile.health.is_none() {
            return Err(format!(
                "--behind {name}: it has neither [removal] nor [health], so it would never learn of a stop"
            ));
        }
        if profile.pool.connections == 0 {
            return Err(format!("--behind {name}: a pool of no connections"));
        }
        name.clone_into(&mut profile.name);
        Ok(profile)
    }

    /// Every number with its source, a line each.
    pub(crate) fn numbers(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(removal) = &self.removal {
            lines.push(format!(
                "nothing new is sent to an instance {} to {} after its stop has begun ({})",
                show(removal.delay),
                show(removal.longest()),
                removal.source
            ));
        }
        if let Some(health) = &self.health {
            lines.push(format!(
                "each instance is asked every {} and taken out after {} failures in a row ({})",
                show(health.every),
                health.failures,
                health.source
            ));
        }
        let idle = match self.keeps_connections() {
            true => format!(", idle ones for {}", show(self.pool.idle_timeout)),
            false => String::new(),
        };
        lines.push(format!(
            "{} connections are kept{idle} ({})",
            self.pool.connections, self.pool.source
        ));
        if let Some(retry) = &self.retry {
            lines.push(format!(
                "at most {} more attempts ({})",
                retry.times, retry.source
            ));
        }
        if let Some(deregistration) = &self.deregistration {
            lines.push(format!(
                "what is open is closed {} after its stop has begun ({})",
                show(deregistration.delay),
                deregistration.source
            ));
        }
        lines
    }

    /// So many more attempts are made at most.
    #[cfg_attr(not(unix), allow(dead_code, reason = "no real balancer is configured"))]
    pub(crate) fn retries(&self) -> u32 {
        self.retry.as_ref().map_or(0, |retry| retry.times)
    }

    /// Whether it keeps connections of its own to the instances.
    pub(crate) const fn keeps_connections(&self) -> bool {
        matches!(self.balances, Balances::Requests)
    }

    pub(crate) fn rules(&self) -> BalancerRules {
        let retry_on = self.retry.iter().flat_map(|retry| &retry.on);
        BalancerRules {
            layer: match self.balances {
                Balances::Connections => Layer::Connections,
                Balances::Requests => Layer::Requests,
            },
            pool: self.pool.connections,
            idle_timeout: self.pool.idle_timeout,
            retries: self.retries(),
            retry_on: retry_on
                .map(|on| match on {
                    On::Refused => RetryOn::Refused,
                    On::Reused => RetryOn::Reused,
                    On::Reset => RetryOn::Reset,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_read_and_has_a_source_for_its_numbers() {
        for (name, text) in BUILT_IN {
            let profile = Profile::find(name).expect(name);
            assert_eq!(profile.name, name);
            let tables = text.matches("\n[").count();
            assert_eq!(text.matches("\nsource = ").count(), tables, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_profile_is_said_with_its_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("mine.toml");
        let name = path.display().to_string();
        for (text, words) in [
            (
                "about = \"x\"\nbalances = \"tables\"\n",
                "line 2: unknown variant",
            ),
            (
                "about = \"x\"\nbalances = \"requests\"\n[pool]\nconnections = 1\nsource = \"x\"\n",
                "neither [removal] nor [health]",
            ),
        ] {
            fs::write(&path, text).expect("a file");
            let said = Profile::find(&name).expect_err(text);
            assert!(said.contains(words), "{said}");
        }
        let real = Profile::find("envoy:real").expect_err("not started");
        assert!(real.contains("nginx:real and haproxy:real"), "{real}");
        assert!(
            Profile::find("elb")
                .expect_err("no such")
                .contains("kube-proxy, alb")
        );
    }
}
