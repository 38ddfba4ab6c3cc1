//! `adieu drill --behind`: a program behind a simulated balancer.

use std::process::ExitCode;

use adieu_drill::{Behind, Profile};

use super::args::DrillArgs;
use super::execute::{judged, run_behind};
use super::output as reports;
use super::rollout::hand_over;
use crate::output::{self, ExitKind};

/// Replaces the instances of a program behind a balancer, and tells what was lost and why.
pub(super) fn run(args: &DrillArgs, profile: &str) -> ExitCode {
    let judged = judged();
    let drill = args.said().drill().progress(judged.progress());
    let name = drill.target_name();
    let profile = Profile::find(profile);
    match profile.and_then(|profile| behind(args, Behind::new(drill, profile))) {
        Ok(behind) => hand_over(args, &name, |runtime| run_behind(runtime, behind, &judged)),
        Err(sentence) => {
            output::error(sentence);
            ExitKind::Usage.into()
        }
    }
}

fn behind(args: &DrillArgs, mut behind: Behind) -> Result<Behind, String> {
    if let Some(instances) = args.instances {
        behind = behind.instances(instances);
    }
    if let Some(rate) = args.rate {
        behind = behind.rate(rate);
    }
    if let Some(pre_stop) = args.pre_stop {
        behind = behind.pre_stop(pre_stop);
    }
    if args.prove_advice {
        behind = behind.prove_advice();
    }
    behind.validate().map_err(|cannot| cannot.to_string())?;
    reports::check(args)?;
    Ok(behind)
}
