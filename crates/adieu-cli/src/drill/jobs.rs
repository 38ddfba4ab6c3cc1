//! `adieu drill --jobs`: workers that are stopped while they work.

use std::process::ExitCode;

use adieu_drill::Jobs;

use super::args::DrillArgs;
use super::execute::{judged, run_jobs};
use super::output as reports;
use super::rollout::hand_over;
use crate::output::{self, ExitKind};

/// Enqueues jobs, stops the workers, and tells what became of the jobs.
pub(super) fn run(args: &DrillArgs, count: u64, enqueue: &str, done: &str) -> ExitCode {
    let judged = judged();
    let drill = args.said().drill().progress(judged.progress());
    let name = drill.target_name();
    match jobs(args, Jobs::new(drill, count, enqueue, done)) {
        Ok(jobs) => hand_over(args, &name, |runtime| run_jobs(runtime, jobs, &judged)),
        Err(sentence) => {
            output::error(sentence);
            ExitKind::Usage.into()
        }
    }
}

fn jobs(args: &DrillArgs, mut jobs: Jobs) -> Result<Jobs, String> {
    if let Some(workers) = args.workers {
        jobs = jobs.workers(workers);
    }
    if let Some(stops) = args.stops {
        jobs = jobs.stops(stops);
    }
    if args.kill {
        jobs = jobs.kill();
    }
    if let Some(lease) = args.lease {
        jobs = jobs.lease(lease);
    }
    if let Some(within) = args.within {
        jobs = jobs.within(within);
    }
    jobs.validate().map_err(|cannot| cannot.to_string())?;
    reports::check(args)?;
    Ok(jobs)
}
