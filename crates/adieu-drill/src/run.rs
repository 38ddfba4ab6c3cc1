//! From what was asked to the report: one check after the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::check::{self, Spec};
use crate::discover::{self, Found};
use crate::drill::{Address, Drill};
use crate::error::CannotDrill;
use crate::finding::Finding;
use crate::pacer::Pacer;
use crate::process::{Blanks, Form, Reaper, not_here};
use crate::progress::Event;
use crate::record::{Record, With};
use crate::report::{Check, Outcome, Recommendation, Report, Target};
use crate::select;
use crate::stage::{self, Stage};
use crate::threshold::{Threshold, show};

/// A check whose judgement a busy machine spoiled is tried so many times in all.
const TRIES: u32 = 3;

/// Holds a drill.
pub(crate) async fn hold(drill: &Drill) -> Result<Report, CannotDrill> {
    let plan = select::plan(drill)?;
    unoccupied(drill).await?;
    let seed = drill.seed.unwrap_or_else(|| fastrand::u64(..));
    let scratch = tempfile::Builder::new()
        .prefix("adieu-drill-")
        .tempdir()
        .map_err(|error| {
            CannotDrill::Usage(format!("no directory for the drill's own files: {error}"))
        })?;
    let begun = Instant::now();
    let mut report = Report::new(target(drill), seed, drill.level);
    let _reaper = Reaper::new();
    let pacer = Pacer::start();
    let mut record = Record::default();

    let ids: Vec<&str> = plan.iter().map(|(spec, _)| spec.id).collect();
    drill.progress.on(Event::Planned { checks: &ids });

    let found = {
        let run = stage::start(drill, scratch.path(), &Form::Plain).await?;
        let mut found = discover::look(drill, &run).await;
        discover::idle_stop(drill, &run, &mut found).await;
        record.exit(
            "",
            With::Nobody,
            found
                .idle_stop
                .zip(found.idle_end.map(|ended| ended.status)),
        );
        run.subject.kill().await;
        found
    };

    // The codes of all stops are judged, so this one comes last; it is shown where it belongs.
    let mut plan = plan;
    plan.sort_by_key(|(spec, _)| spec.id == "exit-code");
    for (spec, threshold) in plan {
        let mut hall = Hall {
            drill,
            scratch: scratch.path(),
            found: &found,
            pacer: &pacer,
            record: &mut record,
            seed,
        };
        let check = hall.examine(spec, threshold).await;
        drill.progress.on(Event::Finished { check: &check });
        if check.outcome == Outcome::Failed {
            record.failed.push(check.id.clone());
        }
        report.checks.push(check);
    }

    report
        .checks
        .sort_by_key(|check| ids.iter().position(|id| *id == check.id));
    report.duration_ms = millis(begun.elapsed());
    report.recommendation = record.worst().map(|(took, check)| Recommendation {
        worst_check: (!check.is_empty()).then(|| check.to_owned()),
        endless: record.endless(),
        ..Recommendation::from_worst(took)
    });
    report.stops = record.stops;
    report.target_report = record.target_report;
    report.target_report_stop = record.target_report_stop;
    report.starvation = pacer.starvation();
    report.judge();
    Ok(report)
}

/// A fixed port is free before the program is there, or it is somebody else who answers.
async fn unoccupied(drill: &Drill) -> Result<(), CannotDrill> {
    let fixed = |address: &Address| !address.text().contains(Blanks::PORT);
    if !drill.address.as_ref().is_some_and(fixed) {
        return Ok(());
    }
    let blanks = stage::blanks(std::path::Path::new(""))?;
    let address = stage::place(drill, &blanks)
        .map_err(CannotDrill::Usage)?
        .address;
    let connecting = tokio::net::TcpStream::connect(address);
    match tokio::time::timeout(Duration::from_secs(1), connecting).await {
        Ok(Ok(_)) => Err(CannotDrill::Usage(format!(
            "something listens at {address} already: stop it, or use {{port}} for a port of its own"
        ))),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// What the checks of one drill share.
struct Hall<'a> {
    drill: &'a Drill,
    scratch: &'a std::path::Path,
    found: &'a Found,
    pacer: &'a Pacer,
    record: &'a mut Record,
    seed: u64,
}

impl Hall<'_> {
    /// Runs a check as often as asked; the first failure is its outcome.
    async fn examine(&mut self, spec: &'static Spec, threshold: Threshold) -> Check {
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
            last = self.try_it(spec, &threshold, run).await;
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
            hint: (last.outcome == Outcome::Failed).then(|| check::hint(spec)),
            duration_ms: millis(begun.elapsed()),
            repeats: run,
        }
    }

    /// Once, or again if the drill itself was kept from the processor.
    async fn try_it(&mut self, spec: &'static Spec, threshold: &Threshold, run: u32) -> Finding {
        if self.drill.address.is_none() && select::needs_an_address(spec) {
            return Finding::skipped("the program has no address to be spoken to at");
        }
        let mut tries = 1;
        loop {
            self.pacer.begin();
            // The same seed draws the same for a check, whichever others run.
            let mut dice = fastrand::Rng::with_seed(
                self.seed ^ hash(spec.id) ^ u64::from(run).rotate_left(48),
            );
            let mut stage = Stage {
                drill: self.drill,
                scratch: self.scratch,
                found: self.found,
                record: self.record,
                spec,
                threshold: threshold.clone(),
                dice: &mut dice,
                run,
            };
            if let Some(why) = not_here(spec.id) {
                return Finding::skipped(why);
            }
            let finding = match (spec.run)(&mut stage).await {
                Ok(finding) => finding,
                Err(CannotDrill::Usage(sentence)) => Finding::skipped(sentence),
                Err(CannotDrill::Start(start)) => {
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
            let starved = self.pacer.starved();
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
