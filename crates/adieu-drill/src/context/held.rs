//! Requests that are held open while the program is stopped.

use std::time::Duration;

use adieu_load::Request;

use crate::context::CheckContext;
use crate::endpoint::label;
use crate::finding::Finding;
use crate::in_flight::InFlight;
use crate::raw::WireError;
use crate::running::{READS_NO_MORE_AFTER, RunningTarget};
use crate::threshold::show;

impl CheckContext<'_> {
    /// The request that is answered so late.
    pub(crate) fn slow(&self, run: &RunningTarget, late: Duration) -> Option<Request> {
        let template = self.capabilities.slow.as_ref()?;
        let path = run.process.placeholders.fill(template);
        let path = path.replace("{ms}", &late.as_millis().to_string());
        Some(run.endpoint.at(&path).ok()?.request())
    }

    /// How long a held request takes: longer than whatever comes before the drain, and not longer than a drain that
    /// always lasts the same time.
    pub(crate) fn hold_time(&self, beyond: Duration) -> Duration {
        let time = self.idle_stop() + beyond;
        let most = self
            .capabilities
            .fixed_drain
            .as_ref()
            .map(|drain| drain.hold);
        most.map_or(time, |most| time.min(most))
    }

    /// A request that is still unanswered when whatever comes before the drain is over.
    pub(crate) fn held(&self, run: &RunningTarget, beyond: Duration) -> Option<Request> {
        self.slow(run, self.hold_time(beyond))
    }

    /// As many requests as the program works on at once, and no more than that.
    pub(crate) fn at_once(&self, most: usize) -> usize {
        self.capabilities
            .at_once
            .map_or(most, |count| count.min(most))
    }

    /// So many requests at once; over TLS no more than the program works on, because a connection is not open before the
    /// program itself has accepted it.
    pub(crate) fn together(&self, run: &RunningTarget, count: usize) -> usize {
        match run.endpoint.tls {
            true => self.at_once(count),
            false => count,
        }
    }

    /// One request that is held open beside others which the program answers meanwhile. None if it has no slow path, or
    /// answers one request at a time.
    pub(crate) async fn hold_beside(
        &self,
        run: &RunningTarget,
        beyond: Duration,
    ) -> Option<InFlight> {
        let request = self.held(run, beyond).filter(|_| self.at_once(2) > 1)?;
        let requests = self.in_flight(run, &request, 1).await;
        requests.unwrap_or_default().pop()
    }

    /// So many requests to the slow path that are still open now: a check stops the program right after this. Without
    /// them it has nothing to judge, and the finding says why.
    pub(crate) async fn hold_open(
        &self,
        run: &RunningTarget,
        request: &Request,
        count: usize,
    ) -> Result<Vec<InFlight>, Finding> {
        let name = label(request);
        let requests = self
            .in_flight(run, request, count)
            .await
            .map_err(|broken| {
                Finding::failed("the slow path cannot be asked before any stop")
                    .shown([format!("{name}: {broken}")])
            })?;
        if requests.iter().all(InFlight::is_open) {
            return Ok(requests);
        }
        let Some(over) = requests.into_iter().find(|in_flight| !in_flight.is_open()) else {
            return Err(Finding::skipped(crate::check::NO_SLOW));
        };
        let finished = over.finish(Duration::ZERO).await;
        let took = show(finished.ended - finished.began);
        let said = match finished.result {
            Ok(answer) => format!("answered {} after {took}", answer.head.status),
            Err(broken) => format!("{broken}, after {took}"),
        };
        Err(Finding::skipped(format!(
            "no request was in flight at the signal: {name} {said}; give a path that answers as late as its query asks \
             with --slow \"/path?ms={{ms}}\""
        )))
    }

    /// Sends so many requests, each on a connection of its own, and waits until the program has read as many of them as
    /// it works on at once.
    async fn in_flight(
        &self,
        run: &RunningTarget,
        request: &Request,
        count: usize,
    ) -> Result<Vec<InFlight>, WireError> {
        let mut requests = Vec::new();
        for _ in 0..count {
            requests.push(InFlight::begin(&run.endpoint, request).await?);
        }
        run.arrive(&mut requests, self.at_once(count), READS_NO_MORE_AFTER)
            .await;
        Ok(requests)
    }
}
