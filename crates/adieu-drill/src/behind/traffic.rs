//! The requests through the balancer, simulated or real, and what became of each.

use std::time::{Duration, Instant};

use adieu_load::{BalancedLoad, BalancedRequest, Outcome};
#[cfg(unix)]
use adieu_load::{Connections, Loss, NumberedRequest, Pace, SteadyLoad, SteadyRunning, Target};
#[cfg(unix)]
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::Setting;
use super::profile::Profile;
#[cfg(unix)]
use super::real::{Balancer, LogLine};
use crate::drill::Drill;
use crate::error::DrillError;
use crate::raw::RawConn;
use crate::running::RunningTarget;

/// How long one look of a health check may take.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a real balancer is asked what its health check says.
#[cfg(unix)]
const HEALTH_STATUS_INTERVAL: Duration = Duration::from_millis(50);

/// One request, and the last attempt that was made for it.
#[derive(Clone, Debug)]
pub(super) struct SentRequest {
    pub(super) due: Instant,
    pub(super) ended: Instant,
    /// What the client saw.
    pub(super) outcome: Outcome,
    /// For how many requests it stands.
    pub(super) weight: u64,
    /// How many attempts there were.
    pub(super) tries: usize,
    pub(super) last: Result<LastAttempt, NoAttempt>,
}

/// The attempt that decided.
#[derive(Clone, Debug)]
pub(super) struct LastAttempt {
    pub(super) instance: u32,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// Whether its connection had carried a request before. A real balancer does not tell.
    pub(super) reused: Option<bool>,
    pub(super) outcome: Outcome,
}

/// Why there was no attempt at an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAttempt {
    /// None was in the routes.
    NoInstance,
    /// A real balancer wrote no line about the request.
    NotInLog,
}

/// A load through a balancer.
pub(super) enum Traffic {
    Simulated(BalancedLoad),
    /// Clients open a connection for each request, so that a reload of the balancer itself closes none under a request.
    #[cfg(unix)]
    Real {
        load: SteadyRunning,
        balancer: Box<Mutex<Balancer>>,
    },
}

impl Traffic {
    /// Starts to send to these instances, which are numbered from 1.
    pub(super) async fn start(
        drill: &Drill,
        profile: &Profile,
        setting: &Setting,
        instances: &[RunningTarget],
        id_prefix: &str,
    ) -> Result<Self, DrillError> {
        let request = instances.first().map(|one| one.endpoint.request());
        let request =
            request.ok_or_else(|| DrillError::Usage("--instances: at least 1".to_owned()))?;
        #[cfg(unix)]
        if let Some(kind) = profile.real {
            let balancer =
                Balancer::start(kind, drill, profile, setting.timeout, instances).await?;
            let target = Target::tcp(balancer.address());
            let load = SteadyLoad::new(target, &request, Pace::Rate(setting.rate));
            let load = load
                .connections(Connections::Fresh)
                .timeout(setting.timeout)
                .id_prefix(id_prefix)
                .start();
            return Ok(Self::Real {
                load,
                balancer: Box::new(Mutex::new(balancer)),
            });
        }
        let _ = drill;
        let load = BalancedLoad::start(
            profile.rules(),
            &request,
            setting.rate,
            setting.timeout,
            id_prefix,
        );
        for (id, one) in (1..).zip(instances) {
            load.add(id, &one.endpoint.plain());
        }
        Ok(Self::Simulated(load))
    }

    /// Sends to this instance, too.
    pub(super) async fn add(
        &self,
        drill: &Drill,
        id: u32,
        instance: &RunningTarget,
    ) -> Result<(), DrillError> {
        let _ = drill;
        match self {
            Self::Simulated(load) => load.add(id, &instance.endpoint.plain()),
            #[cfg(unix)]
            Self::Real { balancer, .. } => balancer.lock().await.add(drill, id, instance).await?,
        }
        Ok(())
    }

    /// Sends nothing new to this instance, and says since when.
    pub(super) async fn remove(&self, id: u32) -> Result<Instant, DrillError> {
        match self {
            Self::Simulated(load) => {
                load.remove(id);
                Ok(Instant::now())
            }
            #[cfg(unix)]
            Self::Real { balancer, .. } => balancer.lock().await.remove(id).await,
        }
    }

    /// Closes what clients keep open to this instance.
    pub(super) fn cut(&self, id: u32) {
        match self {
            Self::Simulated(load) => load.cut(id),
            // No client keeps a connection.
            #[cfg(unix)]
            Self::Real { .. } => {}
        }
    }

    /// Completes when the health check of the balancer has failed as often as it takes.
    pub(super) async fn found_unhealthy(
        &self,
        drill: &Drill,
        profile: &Profile,
        id: u32,
        instance: &RunningTarget,
    ) {
        match self {
            Self::Simulated(_) => simulated_check(drill, profile, instance).await,
            #[cfg(unix)]
            Self::Real { balancer, .. } => {
                while !balancer.lock().await.is_down(id).await {
                    sleep(HEALTH_STATUS_INTERVAL).await;
                }
            }
        }
    }

    /// Completes when so many requests more were answered well. Cancel-safe.
    pub(super) async fn answered_more(&self, count: u64) {
        match self {
            Self::Simulated(load) => load.answered_more(count).await,
            #[cfg(unix)]
            Self::Real { load, .. } => load.answered_more(count).await,
        }
    }

    /// Sends no more, and gives all requests in order.
    pub(super) async fn finish(self) -> Result<Vec<SentRequest>, DrillError> {
        match self {
            Self::Simulated(load) => {
                let requests = load.finish().await;
                Ok(requests.into_iter().map(SentRequest::from).collect())
            }
            #[cfg(unix)]
            Self::Real { load, balancer } => {
                let requests = load.finish().await;
                let log = balancer.into_inner().log().await?;
                let told = |request: NumberedRequest| {
                    let line = log.get(&request.number);
                    SentRequest::told(&request, line)
                };
                Ok(requests.into_iter().map(told).collect())
            }
        }
    }
}

impl From<BalancedRequest> for SentRequest {
    fn from(request: BalancedRequest) -> Self {
        let last = request.attempts.last().map(|attempt| LastAttempt {
            instance: attempt.instance,
            began: attempt.began,
            ended: attempt.ended,
            reused: Some(attempt.reused),
            outcome: attempt.outcome,
        });
        Self {
            due: request.due,
            ended: request.ended,
            outcome: request.outcome(),
            weight: 1,
            tries: request.attempts.len(),
            last: last.ok_or(NoAttempt::NoInstance),
        }
    }
}

#[cfg(unix)]
impl SentRequest {
    /// What the client saw, with what the balancer wrote about it.
    fn told(request: &NumberedRequest, line: Option<&LogLine>) -> Self {
        let last = match line {
            None => Err(NoAttempt::NotInLog),
            Some(line) => match line.instance {
                None => Err(NoAttempt::NoInstance),
                Some(instance) => Ok(LastAttempt {
                    instance,
                    began: request.began,
                    ended: request.ended,
                    reused: None,
                    outcome: match (request.outcome, line.outcome) {
                        (Outcome::Answered, _) => Outcome::Answered,
                        // The client gave up, and what the balancer wrote then is of no account.
                        (Outcome::Lost(Loss::TimedOut), _) => Outcome::Lost(Loss::TimedOut),
                        (seen, Outcome::Answered) => seen,
                        (_, said) => said,
                    },
                }),
            },
        };
        Self {
            due: request.due,
            ended: request.ended,
            outcome: request.outcome,
            weight: u64::from(request.weight),
            tries: line.map_or(0, |line| line.tries),
            last,
        }
    }
}

/// The health check of a simulated balancer.
async fn simulated_check(drill: &Drill, profile: &Profile, old: &RunningTarget) {
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
                let asked =
                    RawConn::ask_within(endpoint, &endpoint.request(), HEALTH_CHECK_TIMEOUT).await;
                asked.is_ok_and(|answer| (200..400).contains(&answer.head.status))
            }
            None => matches!(
                tokio::time::timeout(HEALTH_CHECK_TIMEOUT, old.endpoint.target().connect()).await,
                Ok(Ok(_))
            ),
        };
        failures = if good { 0 } else { failures + 1 };
    }
}
