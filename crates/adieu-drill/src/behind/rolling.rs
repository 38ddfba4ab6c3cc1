//! Instances that are replaced one after the other, as a platform does it.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::Setting;
use super::attribution::Replaced;
use super::profile::Profile;
use super::traffic::{SentRequest, Traffic};
use crate::drill::Drill;
use crate::error::DrillError;
use crate::process::LaunchMode;
use crate::running::{self, RunningTarget};

/// Before the first instance is replaced, and after the last one, so many requests are answered.
const CALM: u64 = 50;
/// They are answered within this time, or the program does not serve.
const SERVES_WITHIN: Duration = Duration::from_secs(20);

/// What one roll-out behind the balancer was like.
pub(super) struct Rolled {
    pub(super) requests: Vec<SentRequest>,
    pub(super) replaced: Vec<Replaced>,
}

/// Starts the instances, and replaces each of them under load.
pub(super) async fn roll(
    drill: &Drill,
    profile: &Profile,
    setting: &Setting,
    scratch: &Path,
    rng: &mut fastrand::Rng,
) -> Result<Rolled, DrillError> {
    let mut running = Vec::new();
    for _ in 0..setting.instances {
        running.push(running::start(drill, scratch, &LaunchMode::Plain).await?);
    }
    let id_prefix = format!("adieu-{:08x}", rng.u32(..));
    let load = Traffic::start(drill, profile, setting, &running, &id_prefix).await?;
    calm(&load).await?;
    let mut replaced = Vec::new();
    for (old, id) in std::mem::take(&mut running).into_iter().zip(1..) {
        // The new one serves before the stop of the old one begins: maxUnavailable 0, maxSurge 1.
        let new = running::start(drill, scratch, &LaunchMode::Plain).await?;
        load.add(drill, setting.instances + id, &new).await?;
        running.push(new);
        let spread = profile.removal.as_ref().map(|it| it.spread);
        let late = spread.unwrap_or_default().mul_f64(rng.f64());
        replaced.push(replace(drill, profile, setting, &load, old, id, late).await?);
    }
    calm(&load).await?;
    let requests = load.finish().await?;
    Ok(Rolled { requests, replaced })
}

async fn calm(load: &Traffic) -> Result<(), DrillError> {
    let answered = timeout(SERVES_WITHIN, load.answered_more(CALM)).await;
    answered.map_err(|_| {
        DrillError::start(
            "the instances are ready and do not answer behind the balancer; does the path of --http answer below 500?",
            Vec::new(),
        )
    })
}

/// One instance: told, taken out of the routes in the time that takes, stopped in parallel, and killed after the grace
/// period.
async fn replace(
    drill: &Drill,
    profile: &Profile,
    setting: &Setting,
    load: &Traffic,
    old: RunningTarget,
    id: u32,
    late: Duration,
) -> Result<Replaced, DrillError> {
    let told = Instant::now();
    let removal = async {
        let by_control_plane = async {
            match &profile.removal {
                Some(removal) => sleep(removal.delay + late).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Whichever comes first takes it out; the other one has nothing to undo.
            biased;
            () = by_control_plane => {}
            () = load.found_unhealthy(drill, profile, id, &old) => {}
        }
        load.remove(id).await
    };
    let stop = async {
        // As a preStop hook: the grace period runs meanwhile.
        sleep(setting.pre_stop).await;
        let signal = old.stop();
        let left = setting.grace.saturating_sub(setting.pre_stop);
        let ended = old.process.ended_within(left).await;
        if ended.is_none() {
            old.process.kill().await;
        }
        let at = ended.map_or_else(Instant::now, |ended| ended.at);
        (signal, at, ended.is_none())
    };
    let cut = async {
        if let Some(deregistration) = &profile.deregistration {
            sleep(deregistration.delay).await;
            load.cut(id);
        }
    };
    let replacing = async { tokio::join!(removal, stop) };
    let (removed, (signal, ended, killed)) = beside(replacing, cut).await;
    old.process.kill().await;
    Ok(Replaced {
        id,
        told,
        signal,
        removed: removed?,
        ended,
        killed,
    })
}

/// Waits for the first, and runs the other beside it as far as it comes until then.
async fn beside<T>(first: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let mut first = std::pin::pin!(first);
    tokio::select! {
        biased;
        done = &mut first => return done,
        () = other => {}
    }
    first.await
}
