//! A program behind a balancer, while its instances are replaced.
//!
//! Several instances are started, a balancer, simulated or real, sends requests to them, and they are replaced one after the other as a
//! platform does it. Each lost request is attributed to what its instance went through, and from that follows what
//! would have lost nothing.

mod attribution;
mod checks;
mod profile;
#[cfg(unix)]
mod real;
mod rolling;
mod traffic;

use std::time::{Duration, Instant};

use attribution::{is_lost, told};
use checks::Run;
pub use checks::behind_checks;
pub use profile::Profile;
use rolling::{Rolled, roll};
use traffic::SentRequest;

use crate::check::CheckInfo;
use crate::drill::{Address, Drill};
use crate::error::DrillError;
use crate::process::{Placeholders, Reaper};
use crate::progress::Event;
use crate::report::{Bar, BehindReport, BehindRun, Mark, MarkKind, Report, StopTimeline, Target};
use crate::scratch;
use crate::starvation::StarvationMonitor;
use crate::stop_log::{fate, micros};

/// So many instances at most, as many again are started beside them.
const MOST_INSTANCES: u32 = 16;
/// So many requests are drawn.
const MOST_BARS: usize = 20_000;

/// A program to be drilled behind a balancer.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `run`"]
pub struct Behind {
    drill: Drill,
    profile: Profile,
    setting: Setting,
    prove: bool,
}

/// How the instances are run and replaced.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    instances: u32,
    rate: f64,
    timeout: Duration,
    pre_stop: Duration,
    grace: Duration,
}

impl Behind {
    /// This program behind a balancer of this profile.
    pub fn new(drill: Drill, profile: Profile) -> Self {
        let grace = drill.grace;
        Self {
            drill,
            profile,
            setting: Setting {
                instances: 2,
                rate: 100.0,
                timeout: Duration::from_secs(10),
                pre_stop: Duration::ZERO,
                grace,
            },
            prove: false,
        }
    }

    /// So many instances. 2 if left out.
    pub const fn instances(mut self, instances: u32) -> Self {
        self.setting.instances = instances;
        self
    }

    /// So many requests a second. 100 if left out.
    pub const fn rate(mut self, rate: f64) -> Self {
        self.setting.rate = rate;
        self
    }

    /// How long the platform waits before it sends the stop signal, as a preStop hook does. Not at all if left out. The
    /// grace period runs meanwhile.
    pub const fn pre_stop(mut self, pre_stop: Duration) -> Self {
        self.setting.pre_stop = pre_stop;
        self
    }

    /// Runs it once more with what is advised, if something was lost.
    pub const fn prove_advice(mut self) -> Self {
        self.prove = true;
        self
    }

    /// Whether what was asked for makes sense, without starting anything.
    ///
    /// # Errors
    ///
    /// With what does not, and what to do.
    pub fn validate(&self) -> Result<(), DrillError> {
        // Its thresholds are those of other checks.
        let mut drill = self.drill.clone();
        drill.thresholds.clear();
        drill.validate()?;
        let usage = |sentence: &str| Err(DrillError::Usage(sentence.to_owned()));
        match &self.drill.address {
            Some(Address::Http(url)) if url.contains(Placeholders::PORT) => {}
            _ => {
                return usage(
                    "--behind starts several instances of a program that speaks HTTP: give --http with {port} in it",
                );
            }
        }
        if self.setting.instances == 0 || self.setting.instances > MOST_INSTANCES {
            return usage("--instances: at least 1 and at most 16");
        }
        if !(self.setting.rate > 0.0 && self.setting.rate <= 10_000.0) {
            return usage("--rate: more than 0 and at most 10000 requests a second");
        }
        if self.setting.pre_stop >= self.setting.grace {
            return usage(
                "--pre-stop: it must be shorter than the grace period, which runs meanwhile",
            );
        }
        if self.profile.real.is_some() {
            self.validate_real()?;
        }
        checks::thresholds(&self.drill.thresholds)
            .map(drop)
            .map_err(DrillError::Usage)
    }

    /// What a real balancer cannot do, and the drill not read in its log.
    fn validate_real(&self) -> Result<(), DrillError> {
        let name = &self.profile.name;
        let url = self.drill.address.as_ref().map_or("", Address::text);
        if url.starts_with("https:") {
            return Err(DrillError::Usage(format!(
                "--behind {name}: it speaks plain HTTP to the instances; give --http http://…"
            )));
        }
        let mut headers = self.drill.headers.iter();
        if headers.any(|(header, _)| header.eq_ignore_ascii_case("x-request-id")) {
            return Err(DrillError::Usage(format!(
                "--behind {name}: each request is found in its log by an x-request-id of the drill's own; leave that --header out"
            )));
        }
        Ok(())
    }

    /// Replaces all instances under load. Needs a tokio runtime with time and I/O. Dropped before its end, it kills every
    /// process it started.
    ///
    /// # Errors
    ///
    /// If what was asked for makes no sense, or the program cannot be started.
    pub async fn run(self) -> Result<Report, DrillError> {
        self.validate()?;
        let drill = &self.drill;
        let thresholds = checks::thresholds(&drill.thresholds).map_err(DrillError::Usage)?;
        #[cfg(unix)]
        if let Some(real) = self.profile.real {
            real::installed(real)?;
        }
        let seed = drill.seed.unwrap_or_else(|| fastrand::u64(..));
        let scratch = scratch::directory()?;
        let begun = Instant::now();
        let target = Target {
            name: drill.target_name(),
            command: drill.launch.command.clone(),
            address: drill
                .address
                .as_ref()
                .map(|address| address.text().to_owned())
                .unwrap_or_default(),
        };
        let mut report = Report::new(target, seed, drill.level);
        let ids: Vec<&str> = behind_checks().map(CheckInfo::id).collect();
        drill.progress.on(Event::Planned {
            checks: &ids,
            report: &report,
        });
        drill.progress.on(Event::Started {
            check: "behind-lost",
            steps: None,
        });
        let _reaper = Reaper::new();
        let monitor = StarvationMonitor::start();
        monitor.begin();
        let mut rng = fastrand::Rng::with_seed(seed);
        let first = roll(
            drill,
            &self.profile,
            &self.setting,
            scratch.path(),
            &mut rng,
        )
        .await?;
        let advice = checks::advice(&first, &self.profile, &self.setting);
        report.stops.push(drawn(&first, 1));
        let first = Run::of(&first, &self.setting);
        let mut second = None;
        if self.prove && first.told.lost > 0 && advice.pre_stop_ms.is_some() {
            let advised = Setting {
                pre_stop: advice.pre_stop(),
                grace: advice.grace(),
                ..self.setting.clone()
            };
            let rolled = roll(drill, &self.profile, &advised, scratch.path(), &mut rng).await?;
            report.stops.push(drawn(&rolled, 2));
            second = Some(Run::of(&rolled, &advised));
        }
        for check in checks::judge(
            &first,
            second.as_ref(),
            &advice,
            self.prove,
            &thresholds,
            begun.elapsed(),
        ) {
            drill.progress.on(Event::Finished { check: &check });
            report.checks.push(check);
        }
        report.behind = Some(BehindReport {
            profile: self.profile.name.clone(),
            about: self.profile.about.clone(),
            numbers: self.profile.numbers(),
            runs: std::iter::once(first.told)
                .chain(second.map(|run| run.told))
                .collect(),
            advice,
        });
        report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.starvation = monitor.starvation();
        report.judge();
        Ok(report)
    }
}

impl Run {
    fn of(rolled: &Rolled, setting: &Setting) -> Self {
        let weight = |of: fn(&SentRequest) -> bool| -> u64 {
            let requests = rolled.requests.iter().filter(|request| of(request));
            requests.map(|request| request.weight).sum()
        };
        let replaced = &rolled.replaced;
        let stops = replaced.iter().filter(|one| !one.killed);
        let took = stops.map(|one| one.ended.saturating_duration_since(one.signal));
        Self {
            slowest: took.max(),
            killed: replaced.iter().filter(|one| one.killed).count(),
            told: BehindRun {
                pre_stop_ms: setting.pre_stop.as_secs_f64() * 1_000.0,
                grace_ms: setting.grace.as_secs_f64() * 1_000.0,
                requests: weight(|_| true),
                lost: weight(is_lost),
                retried: weight(|request| request.tries > 1),
                losses: told(&rolled.requests, replaced),
            },
        }
    }
}

/// All instances of one roll-out on one line of time, which begins when the stop of the first begins.
fn drawn(rolled: &Rolled, number: u32) -> StopTimeline {
    let origin = rolled
        .replaced
        .first()
        .map_or_else(Instant::now, |one| one.told);
    let mark = |at: Instant, kind: MarkKind, label: String| Mark {
        at_us: micros(at, origin),
        kind,
        label,
    };
    let mut marks = Vec::new();
    for one in &rolled.replaced {
        let name = format!("instance {}", one.id);
        let end = match one.killed {
            true => format!("{name}, killed"),
            false => name.clone(),
        };
        marks.push(mark(one.signal, MarkKind::Signal, name.clone()));
        marks.push(mark(one.removed, MarkKind::OutOfRoutes, name));
        marks.push(mark(one.ended, MarkKind::Exit, end));
    }
    marks.sort_by_key(|mark| mark.at_us);
    let skipped = rolled.requests.len().saturating_sub(MOST_BARS);
    let bars = rolled.requests.iter().skip(skipped).map(|request| Bar {
        start_us: micros(request.due, origin),
        end_us: micros(request.ended, origin),
        connection: request.last.as_ref().map_or(0, |attempt| attempt.instance),
        label: String::new(),
        fate: fate(request.outcome),
    });
    StopTimeline {
        check: "behind-lost".to_owned(),
        run: number,
        marks,
        requests: bars.collect(),
        omitted: skipped as u64,
    }
}
