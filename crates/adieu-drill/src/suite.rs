//! From what was asked to the report: one check after the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::capabilities::fixed_drain;
use crate::capabilities::{self, Capabilities};
use crate::check::{self, Spec};
use crate::conntrack;
use crate::context::CheckContext;
use crate::drill::{Address, Drill};
use crate::error::DrillError;
use crate::finding::Finding;
use crate::plan;
use crate::process::{LaunchMode, Placeholders, Reaper, not_here};
use crate::progress::Event;
use crate::report::{Check, Outcome, Recommendation, Report, Target};
use crate::running;
use crate::scratch;
use crate::starvation::StarvationMonitor;
use crate::stop_log::{LoadKind, StopLog};
use crate::threshold::{Threshold, show};

/// A check whose judgement a busy machine spoiled is tried so many times in all.
const TRIES: u32 = 3;

impl Drill {
    /// Whether what was asked for makes sense, without starting anything.
    ///
    /// # Errors
    ///
    /// With what does not, and what to do.
    pub fn validate(&self) -> Result<(), DrillError> {
        plan::plan(self).map(drop)
    }

    /// Holds the drill. Needs a tokio runtime with time and I/O. Dropped before its end, it kills every process it
    /// started.
    ///
    /// # Errors
    ///
    /// If what was asked for makes no sense, or the program cannot be started.
    pub async fn run(self) -> Result<Report, DrillError> {
        run(&self).await
    }
}

/// Runs all checks of a drill.
async fn run(drill: &Drill) -> Result<Report, DrillError> {
    let plan = plan::plan(drill)?;
    unoccupied(drill).await?;
    let seed = drill.seed.unwrap_or_else(|| fastrand::u64(..));
    let scratch = scratch::directory()?;
    let begun = Instant::now();
    let mut report = Report::new(target(drill), seed, drill.level);
    let _reaper = Reaper::new();
    let monitor = StarvationMonitor::start();
    let mut log = StopLog::default();

    let ids: Vec<&'static str> = plan.iter().map(|(spec, _)| spec.id).collect();
    let planned = Event::Planned {
        checks: &ids,
        report: &report,
    };
    drill.progress.on(planned);

    let capabilities = {
        let run = running::start(drill, scratch.path(), &LaunchMode::Plain).await?;
        let mut found = capabilities::look(drill, &run).await?;
        capabilities::idle_stop(drill, &run, &mut found).await;
        log.exit(
            "",
            LoadKind::Idle,
            found
                .idle_stop
                .zip(found.idle_end.map(|ended| ended.status)),
        );
        run.process.kill().await;
        found.fixed_drain = fixed_drain::look(drill, scratch.path(), &found, &mut log).await?;
        found
    };

    // The codes of all stops are judged, so this one comes last; it is shown where it belongs.
    let mut plan = plan;
    plan.sort_by_key(|(spec, _)| spec.id == "exit-code");
    for (spec, threshold) in plan {
        let mut suite = Suite {
            drill,
            scratch: scratch.path(),
            capabilities: &capabilities,
            monitor: &monitor,
            log: &mut log,
            planned: &ids,
            seed,
        };
        let check = suite.run_check(spec, threshold).await;
        drill.progress.on(Event::Finished { check: &check });
        if check.outcome == Outcome::Failed {
            log.failed.push(check.id.clone());
        }
        report.checks.push(check);
    }

    report
        .checks
        .sort_by_key(|check| ids.iter().position(|id| *id == check.id));
    report.duration_ms = millis(begun.elapsed());
    report.recommendation = log.worst().map(|(took, check)| Recommendation {
        worst_check: (!check.is_empty()).then(|| check.to_owned()),
        endless: log.endless(),
        ..Recommendation::from_worst(took)
    });
    report.stops = log.stops;
    report.target_report = log.target_report;
    report.target_report_stop = log.target_report_stop;
    report.starvation = monitor.starvation();
    report.judge();
    Ok(report)
}

/// A fixed port is free before the program is there, or another program answers.
async fn unoccupied(drill: &Drill) -> Result<(), DrillError> {
    let fixed = |address: &Address| !address.text().contains(Placeholders::PORT);
    if !drill.address.as_ref().is_some_and(fixed) {
        return Ok(());
    }
    let placeholders = running::placeholders(std::path::Path::new(""))?;
    let address = drill
        .endpoint(&placeholders)
        .map_err(DrillError::Usage)?
        .address;
    let connecting = tokio::net::TcpStream::connect(address);
    match tokio::time::timeout(Duration::from_secs(1), connecting).await {
        Ok(Ok(_)) => Err(DrillError::Usage(format!(
            "something listens at {address} already: stop it, or use {{port}} for a port of its own"
        ))),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// What the checks of one drill share.
struct Suite<'a> {
    drill: &'a Drill,
    scratch: &'a std::path::Path,
    capabilities: &'a Capabilities,
    monitor: &'a StarvationMonitor,
    log: &'a mut StopLog,
    planned: &'a [&'static str],
    seed: u64,
}

impl Suite<'_> {
    /// Runs a check as often as asked; the first failure is its outcome.
    async fn run_check(&mut self, spec: &'static Spec, threshold: Threshold) -> Check {
        let begun = Instant::now();
        let repeats = self.drill.repeat.max(1);
        let check = spec.id;
        let steps = (repeats > 1).then_some(u64::from(repeats));
        self.drill.progress.on(Event::Started { check, steps });
        let mut measured = Vec::new();
        let mut last = Finding::skipped("not run");
        let mut run = 0;
        while run < repeats {
            run += 1;
            last = self.attempt(spec, &threshold, run).await;
            measured.extend(last.measured.take());
            if last.outcome != Outcome::Passed {
                break;
            }
            if repeats > 1 {
                let doing = format!("run {run} of {repeats}");
                let done = u64::from(run);
                self.drill.progress.on(Event::Step {
                    check,
                    done,
                    doing: &doing,
                });
            }
        }
        let measured = summary(&measured);
        let required = last.outcome == Outcome::Skipped && plan::is_required(self.drill, spec.id);
        if required {
            let reason = std::mem::take(&mut last.reason);
            let evidence = std::mem::take(&mut last.evidence);
            last = Finding::failed(format!("required, and not judged: {reason}"))
                .shown(["a check that is given with --require must not be skipped"])
                .shown(evidence)
                .advising(reason);
        }
        if last.outcome == Outcome::Failed && last.evidence.is_empty() {
            let seen = measured.as_deref().unwrap_or("nothing of it");
            last.evidence
                .push(format!("demanded: {threshold}; seen: {seen}"));
        }
        Check {
            id: spec.id.to_owned(),
            group: spec.group,
            why: spec.why.to_owned(),
            outcome: last.outcome,
            reason: last.reason,
            evidence: last.evidence,
            threshold: (last.outcome != Outcome::Skipped).then(|| threshold.to_string()),
            measured,
            hint: (last.outcome == Outcome::Failed).then(|| {
                last.advice
                    .unwrap_or_else(|| check::hints::fitting(spec, &self.drill.launch.command))
            }),
            duration_ms: millis(begun.elapsed()),
            repeats: run,
        }
    }

    /// Once, or again if the drill itself was kept from the processor.
    async fn attempt(&mut self, spec: &'static Spec, threshold: &Threshold, run: u32) -> Finding {
        let fed = spec.id == "inflight-finishes" && self.drill.feed.is_some();
        if self.drill.address.is_none() && plan::needs_an_address(spec) && !fed {
            let words = match spec.id {
                "inflight-finishes" => check::NO_WORK,
                _ => check::NO_ADDRESS,
            };
            return Finding::skipped(words);
        }
        if matches!(self.drill.address, Some(Address::Tcp(_))) && plan::needs_http(spec) {
            return Finding::skipped(check::NO_HTTP_AT_TCP);
        }
        let mut tries = 1;
        loop {
            self.monitor.begin();
            // The same seed draws the same for a check, whichever others run.
            let mut rng = fastrand::Rng::with_seed(
                self.seed ^ hash(spec.id) ^ u64::from(run).rotate_left(48),
            );
            let mut cx = CheckContext {
                drill: self.drill,
                scratch: self.scratch,
                capabilities: self.capabilities,
                log: self.log,
                planned: self.planned,
                spec,
                threshold: threshold.clone(),
                rng: &mut rng,
                run,
            };
            if let Some(why) = not_here(spec.id) {
                return Finding::skipped(why);
            }
            let finding = match (spec.run)(&mut cx).await {
                Ok(finding) => finding,
                Err(DrillError::Usage(sentence)) => Finding::skipped(sentence),
                Err(DrillError::Start(start)) => {
                    let output = start
                        .output
                        .iter()
                        .map(|line| format!("it printed: {line}"));
                    Finding::failed(format!(
                        "the program could not be started again: {}",
                        start.reason
                    ))
                    .shown(output)
                }
            };
            let finding = match conntrack::full(&self.drill.conntrack) {
                Some(full) if finding.outcome == Outcome::Failed => Finding::skipped(format!(
                    "not judged: {full}; what was seen: {}",
                    finding.reason
                ))
                .shown(finding.evidence),
                _ => finding,
            };
            let starved = self.monitor.starved();
            match starved {
                Some(late) if finding.outcome == Outcome::Failed && finding.by_time => {
                    if tries < TRIES {
                        tries += 1;
                        continue;
                    }
                    return Finding::skipped(format!(
                        "not judged: the machine was so busy that the drill itself came {} late; what was seen: {}",
                        show(late),
                        finding.reason
                    ))
                    .shown(finding.evidence);
                }
                _ => return finding,
            }
        }
    }
}

fn target(drill: &Drill) -> Target {
    Target {
        name: drill.target_name(),
        command: drill.launch.command.clone(),
        address: drill
            .address
            .as_ref()
            .map(|address| address.text().to_owned())
            .unwrap_or_default(),
    }
}

/// What was measured, once for the same words.
fn summary(measured: &[String]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in measured {
        *counts.entry(one).or_default() += 1;
    }
    match (measured.first(), measured.last()) {
        (Some(first), _) if counts.len() == 1 => Some(first.clone()),
        (Some(_), Some(last)) => Some(format!("{last} (last of {})", measured.len())),
        _ => None,
    }
}

/// Stable over versions, unlike the hasher of the standard library.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
