//! A real nginx or HAProxy before the instances, with a configuration of ours in a private directory.
//!
//! It runs in the foreground on a loopback port, as a process of the drill. The routes are changed as a controller does it: a new
//! configuration is written, and the balancer reads it at a signal. Each configuration has a number, which the balancer
//! answers with at a path of its own, so that it is known when the new one is in force. What became of each request at
//! which instance is in its log.

mod haproxy;
mod log;
mod nginx;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adieu_load::Request;
use tempfile::TempDir;
use tokio::time::sleep;

use super::profile::{Profile, RealBalancer};
use crate::drill::Drill;
use crate::endpoint::Endpoint;
use crate::error::DrillError;
use crate::process::{Launch, LaunchMode, Ready, Signal, TargetProcess, describe};
use crate::raw::RawConn;
use crate::running::{self, RunningTarget};

pub(super) use log::LogLine;

/// The path at which the balancer answers with the number of its configuration.
const NUMBER: &str = "/.adieu-drill-configuration";
/// A balancer that has not read its configuration by then does not.
const CONFIGURATION_TIMEOUT: Duration = Duration::from_secs(10);
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
/// For so long no process with the configuration before may answer: nginx lets the old worker accept for 100 ms beside the new
/// one.
const OLD_WORKER_SILENCE: Duration = Duration::from_millis(300);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// One instance as the balancer knows it.
#[derive(Clone, Copy, Debug)]
struct Route {
    id: u32,
    address: SocketAddr,
    /// Where the health check asks, if that is not the address itself.
    probe: Option<SocketAddr>,
}

/// A running balancer. Dropped, it is killed, and its directory is gone.
pub(super) struct Balancer {
    kind: RealBalancer,
    process: TargetProcess,
    config: Config,
    /// Every instance that ever was in the routes.
    known: HashMap<SocketAddr, u32>,
    // Dropped last: the process writes into it.
    dir: TempDir,
}

/// What a configuration is made of.
struct Config {
    number: u64,
    listen: SocketAddr,
    routes: Vec<Route>,
    profile: Profile,
    timeout: Duration,
    /// The path that the health check asks for.
    probe_path: Option<String>,
}

/// Where the program is, or what to install.
///
/// # Errors
///
/// With the name of the package.
pub(super) fn installed(kind: RealBalancer) -> Result<PathBuf, DrillError> {
    let path = env::var_os("PATH").unwrap_or_default();
    // The PATH of an ordinary user has no servers of the system.
    let directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    installed_in(kind, directories)
}

fn installed_in(
    kind: RealBalancer,
    directories: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, DrillError> {
    let name = kind.program();
    let mut programs = directories.map(|directory| directory.join(name));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        DrillError::start(
            format!(
                "--behind {name}:real: {name} is not installed: `apt-get install {}` as root, or the package of your \
                 distribution; `--behind {name}` simulates it",
                kind.package()
            ),
            Vec::new(),
        )
    })
}

impl Balancer {
    /// Starts it before these instances.
    pub(super) async fn start(
        kind: RealBalancer,
        drill: &Drill,
        profile: &Profile,
        timeout: Duration,
        instances: &[RunningTarget],
    ) -> Result<Self, DrillError> {
        let program = installed(kind)?;
        let dir = crate::scratch::directory()?;
        let ports = running::placeholders(dir.path())?;
        let port = ports.fill("{port}").parse().unwrap_or_default();
        let mut config = Config {
            number: 0,
            listen: SocketAddr::from(([127, 0, 0, 1], port)),
            routes: Vec::new(),
            profile: profile.clone(),
            timeout,
            probe_path: None,
        };
        for (id, instance) in (1..).zip(instances) {
            config.route(drill, id, instance)?;
        }
        config.write(kind, dir.path())?;
        let launch = Launch {
            command: match kind {
                RealBalancer::Nginx => nginx::command(&program, dir.path()),
                RealBalancer::HaProxy => haproxy::command(&program, dir.path()),
            },
            alone: drill.launch.alone,
            ..Launch::default()
        };
        let process = TargetProcess::start(
            &launch,
            // nginx writes its titles over its environment, which has the mark of the drill. The shell keeps the mark, and the
            // guard finds nginx below it.
            &LaunchMode::BelowShell,
            None,
            ports,
            &Ready::Answers,
            dir.path(),
        )
        .map_err(|error| cannot(kind, &error))?;
        let known = config.addresses().collect();
        let mut balancer = Self {
            kind,
            process,
            config,
            known,
            dir,
        };
        balancer.in_force().await?;
        let below = balancer.process.look_below().await;
        below.map_err(|error| cannot(kind, &error))?;
        Ok(balancer)
    }

    /// Where the clients connect to.
    pub(super) const fn address(&self) -> SocketAddr {
        self.config.listen
    }

    /// Routes to this instance, too.
    pub(super) async fn add(
        &mut self,
        drill: &Drill,
        id: u32,
        instance: &RunningTarget,
    ) -> Result<(), DrillError> {
        self.config.route(drill, id, instance)?;
        self.known.extend(self.config.addresses());
        self.reload().await.map(drop)
    }

    /// Routes nothing new to this instance, and says since when. One that its own health check has taken out leaves the configuration at the
    /// next reload.
    pub(super) async fn remove(&mut self, id: u32) -> Result<Instant, DrillError> {
        self.config.routes.retain(|route| route.id != id);
        match self.config.profile.removal {
            Some(_) => self.reload().await,
            None => Ok(Instant::now()),
        }
    }

    /// Whether its own health check has taken this instance out.
    pub(super) async fn is_down(&self, id: u32) -> bool {
        match self.kind {
            // It has no health check of its own.
            RealBalancer::Nginx => false,
            RealBalancer::HaProxy => haproxy::is_down(self.dir.path(), id).await,
        }
    }

    /// What its log has of each request, by number. Nothing is sent through it any more.
    pub(super) async fn log(self) -> Result<HashMap<u64, LogLine>, DrillError> {
        // The lines of the last requests are written before it ends.
        self.process.signal(Signal::TERM);
        let _ = self.process.ended_within(CONFIGURATION_TIMEOUT).await;
        self.process.kill().await;
        log::read(self.kind, self.dir.path(), &self.known)
            .map_err(|error| cannot(self.kind, &error))
    }

    /// Writes the configuration, has the balancer read it, and says since when it is in force.
    async fn reload(&mut self) -> Result<Instant, DrillError> {
        self.config.write(self.kind, self.dir.path())?;
        self.process.signal(match self.kind {
            RealBalancer::Nginx => Signal::HUP,
            RealBalancer::HaProxy => Signal::USR2,
        });
        self.in_force().await
    }

    /// Waits until it answers with the number of the last configuration, and with no other any more. Says since when.
    async fn in_force(&self) -> Result<Instant, DrillError> {
        let name = self.kind.program();
        let begun = Instant::now();
        let mut since = None;
        while begun.elapsed() < CONFIGURATION_TIMEOUT {
            if let Some(ended) = self.process.ended() {
                // What it printed last is in the pipe and read a moment later.
                sleep(Duration::from_millis(50)).await;
                return Err(DrillError::start(
                    format!("{name} ended: {}", describe(ended.status)),
                    self.process.output.last(20),
                ));
            }
            let is_new = asked(self.config.listen).await == Some(self.config.number);
            let now = Instant::now();
            since = is_new.then(|| since.unwrap_or(now));
            if let Some(since) = since.filter(|since| now >= *since + OLD_WORKER_SILENCE) {
                return Ok(since);
            }
            sleep(PROBE_INTERVAL).await;
        }
        Err(DrillError::start(
            format!(
                "{name} did not take its configuration in {}",
                crate::threshold::show(CONFIGURATION_TIMEOUT)
            ),
            self.process.output.last(20),
        ))
    }
}

fn cannot(kind: RealBalancer, error: &io::Error) -> DrillError {
    DrillError::start(
        format!("{} cannot be run: {error}", kind.program()),
        Vec::new(),
    )
}

/// The number of the configuration that answers.
async fn asked(address: SocketAddr) -> Option<u64> {
    let endpoint = Endpoint::parse_url(&format!("http://{address}{NUMBER}")).ok()?;
    let talk = async {
        let mut conn = RawConn::open(&endpoint.target()).await.ok()?;
        conn.send(&Request::get(NUMBER).bytes(true)).await.ok()?;
        let (head, text) = conn.head().await.ok()?;
        let number = crate::raw::field(&text, "x-adieu-drill-configuration")?;
        (head.status == 200).then(|| number.parse().ok()).flatten()
    };
    tokio::time::timeout(PROBE_TIMEOUT, talk)
        .await
        .ok()
        .flatten()
}

impl Config {
    fn route(
        &mut self,
        drill: &Drill,
        id: u32,
        instance: &RunningTarget,
    ) -> Result<(), DrillError> {
        let endpoint = &instance.endpoint;
        let probe = drill.paths.readiness.as_ref();
        let probe = probe.map(|path| endpoint.at(&instance.process.placeholders.fill(path)));
        let probe = probe.transpose().map_err(DrillError::Usage)?;
        self.probe_path = probe.as_ref().map(|probe| probe.request().path);
        self.routes.push(Route {
            id,
            address: endpoint.address,
            probe: probe
                .map(|probe| probe.address)
                .filter(|address| *address != endpoint.address),
        });
        Ok(())
    }

    fn addresses(&self) -> impl Iterator<Item = (SocketAddr, u32)> + '_ {
        self.routes.iter().map(|route| (route.address, route.id))
    }

    fn write(&mut self, kind: RealBalancer, dir: &Path) -> Result<(), DrillError> {
        self.number += 1;
        let (file, text) = match kind {
            RealBalancer::Nginx => (nginx::FILE, nginx::config(self, dir)),
            RealBalancer::HaProxy => (haproxy::FILE, haproxy::config(self, dir)),
        };
        fs::write(dir.join(file), text).map_err(|error| cannot(kind, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> Config {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Config {
            number: 7,
            listen: address(8_000),
            routes: vec![
                Route {
                    id: 1,
                    address: address(8_001),
                    probe: None,
                },
                Route {
                    id: 2,
                    address: address(8_002),
                    probe: Some(address(9_002)),
                },
            ],
            profile: Profile::find(name).expect("a profile"),
            timeout: Duration::from_secs(10),
            probe_path: Some("/readyz".to_owned()),
        }
    }

    #[test]
    fn a_balancer_that_is_not_installed_is_told_with_its_package() {
        let dir = tempfile::tempdir().expect("a directory");
        let here = || std::iter::once(dir.path().to_owned());
        let said = installed_in(RealBalancer::HaProxy, here()).expect_err("it is not there");
        assert!(matches!(said, DrillError::Start(_)), "{said}");
        let said = said.to_string();
        assert!(
            said.contains("haproxy is not installed: `apt-get install haproxy`"),
            "{said}"
        );
        let program = dir.path().join("nginx");
        fs::write(&program, "").expect("a file");
        let found = installed_in(RealBalancer::Nginx, here()).expect("it is there");
        assert_eq!(found, program);
    }

    #[test]
    fn the_configuration_of_nginx_has_the_numbers_of_the_profile() {
        let text = nginx::config(&config("nginx:real"), Path::new("/dir"));
        for line in [
            "listen 127.0.0.1:8000;",
            "server 127.0.0.1:8002;",
            "keepalive 32;",
            "keepalive_timeout 60000ms;",
            "proxy_next_upstream error timeout;",
            "proxy_next_upstream_tries 2;",
            "x-adieu-drill-configuration 7",
        ] {
            assert!(text.contains(line), "no `{line}` in {text}");
        }
    }

    #[test]
    fn the_configuration_of_haproxy_has_the_numbers_of_the_profile() {
        let text = haproxy::config(&config("haproxy:real"), Path::new("/dir"));
        for line in [
            "bind 127.0.0.1:8000",
            "server i1 127.0.0.1:8001 check inter 2000ms fall 3 pool-max-conn 32 pool-purge-delay 5000ms",
            "server i2 127.0.0.1:8002 check inter 2000ms fall 3 pool-max-conn 32 pool-purge-delay 5000ms addr 127.0.0.1 port 9002",
            "retries 3",
            "option redispatch",
            "option httpchk GET /readyz",
            "hdr x-adieu-drill-configuration 7",
        ] {
            assert!(text.contains(line), "no `{line}` in {text}");
        }
    }
}
