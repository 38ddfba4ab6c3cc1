//! Instances that are replaced one after the other, as a platform does it.

use std::path::Path;
use std::time::{Duration, Instant};

use adieu_load::{BalancedLoad, BalancedRequest};
use tokio::time::{sleep, timeout};

use super::Setting;
use super::attribution::Replaced;
use super::profile::Profile;
use crate::drill::Drill;
use crate::error::DrillError;
use crate::process::LaunchMode;
use crate::raw::RawConn;
use crate::running::{self, RunningTarget};

/// Before the first instance is replaced, and after the last one, so many requests are answered.
const CALM: u64 = 50;
/// They are answered within this time, or the program does not serve.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one look of a health check may take.
const LOOK: Duration = Duration::from_secs(1);

/// What one roll-out behind the balancer was like.
pub(super) struct Rolled {
    pub(super) requests: Vec<BalancedRequest>,
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
    let request = running
        .first()
        .map(|one| one.endpoint.request())
        .ok_or_else(|| DrillError::Usage("--instances: at least 1".to_owned()))?;
    let id_prefix = format!("adieu-{:08x}", rng.u32(..));
    let load = BalancedLoad::start(
        profile.rules(),
        &request,
        setting.rate,
        setting.timeout,
        &id_prefix,
    );
    for (one, id) in running.iter().zip(1..) {
        load.add(id, &one.endpoint.plain());
    }
    calm(&load).await?;
    let mut replaced = Vec::new();
    for (old, id) in std::mem::take(&mut running).into_iter().zip(1..) {
        // The new one serves before the stop of the old one begins: maxUnavailable 0, maxSurge 1.
        let new = running::start(drill, scratch, &LaunchMode::Plain).await?;
        load.add(setting.instances + id, &new.endpoint.plain());
        running.push(new);
        let spread = profile.removal.as_ref().map(|it| it.spread);
        let late = spread.unwrap_or_default().mul_f64(rng.f64());
        replaced.push(replace(drill, profile, setting, &load, old, id, late).await);
    }
    calm(&load).await?;
    let requests = load.finish().await;
    Ok(Rolled { requests, replaced })
}

async fn calm(load: &BalancedLoad) -> Result<(), DrillError> {
    let answered = timeout(PATIENCE, load.answered_more(CALM)).await;
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
    load: &BalancedLoad,
    old: RunningTarget,
    id: u32,
    late: Duration,
) -> Replaced {
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
            () = fails(drill, profile, &old) => {}
        }
        load.remove(id);
        Instant::now()
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
    Replaced {
        id,
        told,
        signal,
        removed,
        ended,
        killed,
    }
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

/// Completes when the health check of the balancer has failed as often as it takes.
async fn fails(drill: &Drill, profile: &Profile, old: &RunningTarget) {
    let Some(health) = &profile.health else {
        return std::future::pending().await;
    };
    let readiness = drill.paths.readiness.as_ref();
    let readiness = readiness.and_then(|path| {
        let path = old.process.placeholders.fill(path);
        old.endpoint.at(&path).ok()
    });
    let mut failures = 0;
    while failures < health.failures {
        sleep(health.every).await;
        let good = match &readiness {
            Some(endpoint) => {
                let asked = RawConn::ask_within(endpoint, &endpoint.request(), LOOK).await;
                asked.is_ok_and(|answer| (200..400).contains(&answer.head.status))
            }
            None => matches!(
                timeout(LOOK, old.endpoint.target().connect()).await,
                Ok(Ok(_))
            ),
        };
        failures = if good { 0 } else { failures + 1 };
    }
}
