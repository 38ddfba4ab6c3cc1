//! What a queue promises its consumer.

use std::future::Future;
use std::time::Duration;

use crate::{QueueError, ShutdownSignal};

/// A job on its way to the consumer, with what it takes to settle it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivery<R> {
    /// Names this delivery to the queue.
    pub receipt: R,
    /// The job's name in logs, unique within the queue.
    pub id: String,
    /// What is to be done.
    pub payload: Vec<u8>,
    /// Which attempt this is, from 1. What was [given back](Queue::give_back) is not counted if the engine can
    /// help it.
    pub attempt: u32,
}

impl<R> Delivery<R> {
    /// The `attempt`-th delivery of a job, counted from 1.
    pub fn new(receipt: R, id: impl Into<String>, payload: Vec<u8>, attempt: u32) -> Self {
        let id = id.into();
        Self {
            receipt,
            id,
            payload,
            attempt,
        }
    }
}

/// An engine that keeps jobs. Programs use `App::consume` of `adieu` with one of ours; this is for those who bring
/// another.
///
/// A job that was fetched is the caller's for the length of the [lease](Queue::lease), which [`Queue::extend`]
/// begins anew. It then has to be settled: [acknowledged](Queue::ack), [given back](Queue::give_back),
/// [put off](Queue::retry) or [buried](Queue::bury). One that is not settled, because the process is gone, goes
/// to another consumer when its lease is over.
///
/// To settle a job whose lease is over, and which another consumer has meanwhile, must not take it from that one: it is
/// [`QueueError::lost`].
///
/// None of the futures is dropped before its end while the consumer has time; at the very end of a stop they may be.
pub trait Queue: Send + Sync + 'static {
    /// Names a delivery.
    type Receipt: Clone + Send + Sync + 'static;

    /// How long a job that was fetched is the caller's.
    fn lease(&self) -> Duration;

    /// Waits until there are jobs, and takes at most so many. Must not poll.
    ///
    /// Must come back soon after the stop is requested. What it has taken by then it returns: a job that is
    /// forgotten here would have to wait for the end of its lease.
    fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Receipt>>, QueueError>> + Send;

    /// The job is done: it goes away.
    fn ack(&self, job: &Self::Receipt) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The jobs take longer: their leases begin anew. Those that are lost already are left out in silence.
    fn extend(&self, jobs: &[Self::Receipt])
    -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The jobs were not done: the next fetch of any consumer gets them at once, and this was no attempt.
    fn give_back(
        &self,
        jobs: &[Self::Receipt],
    ) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The job failed: it comes again after this time. If it is not `counted`, this was no attempt.
    fn retry(
        &self,
        job: &Self::Receipt,
        after: Duration,
        counted: bool,
    ) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The job becomes a dead letter: it is kept with the reason, for people to look at, and no fetch gets it.
    fn bury(
        &self,
        job: &Self::Receipt,
        reason: &str,
    ) -> impl Future<Output = Result<(), QueueError>> + Send;
}
