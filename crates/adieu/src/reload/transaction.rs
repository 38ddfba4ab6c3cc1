//! One reload from load to commit, or back.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Source, StagedValue, Step};
use crate::error::{BoxError, Failure};
use crate::report::Notice;
use crate::runtime::ending::BoxFuture;
use crate::runtime::stop::Stop;
use crate::util::panics::{self, CatchUnwind};

/// How long one load, or one part's step, may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) enum Verdict {
    Applied,
    Refused {
        part: Arc<str>,
        failure: Failure,
    },
    /// The service stops; nothing has changed.
    Stopped,
}

fn refused(part: Arc<str>, failure: Failure) -> Verdict {
    Verdict::Refused { part, failure }
}

/// Cancelled only by the end of the drain, when no reader is left to see how far it came.
pub(super) async fn transact(stop: &Stop, sources: &[Arc<dyn Source>]) -> Verdict {
    let mut staged_values = Vec::new();
    for source in sources {
        let loading = attempt(|| Arc::clone(source).load());
        // Loading has no effect, so a stop drops it at once.
        match stop.until(loading).await {
            None => return Verdict::Stopped,
            Some(Ok(staged)) => staged_values.push(staged),
            Some(Err(failure)) => return refused(Arc::clone(source.name()), failure),
        }
    }
    for (staged, source) in staged_values.iter().zip(sources) {
        match catch_unwind(AssertUnwindSafe(|| staged.check())) {
            Ok(Ok(())) => {}
            Ok(Err((part, error))) => return refused(part, Failure::from_error(&*error)),
            Err(payload) => {
                let failure = Failure::from(&panics::describe(payload));
                return refused(Arc::clone(source.name()), failure);
            }
        }
    }
    let steps = staged_values.iter().flat_map(|staged| staged.steps());
    let mut done = Vec::new();
    for Step { name, apply, undo } in steps.collect::<Vec<_>>() {
        let begun = if stop.is_requested() {
            Err(Verdict::Stopped)
        } else {
            // A step that has begun is not dropped: half of it would be neither the old nor the new.
            let applied = attempt(apply).await;
            applied.map_err(|failure| refused(Arc::clone(&name), failure))
        };
        match begun {
            Ok(()) => done.push((name, undo)),
            Err(verdict) => {
                roll_back(stop, done).await;
                return verdict;
            }
        }
    }
    staged_values
        .into_iter()
        .for_each(<dyn StagedValue>::commit_boxed);
    Verdict::Applied
}

impl dyn StagedValue {
    fn commit_boxed(self: Box<Self>) {
        self.commit();
    }
}

async fn roll_back(
    stop: &Stop,
    done: Vec<(
        Arc<str>,
        impl FnOnce() -> BoxFuture<Result<(), BoxError>> + Send,
    )>,
) {
    for (part, undo) in done.into_iter().rev() {
        if let Err(failure) = attempt(undo).await {
            stop.core.note(Notice::RollbackFailed { part, failure });
        }
    }
}

/// Whatever goes wrong is a failure: an error, a panic, or a time that is over.
async fn attempt<T, F>(begin: impl FnOnce() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, BoxError>>,
{
    let work = CatchUnwind::new(async move { begin().await });
    match tokio::time::timeout(STEP_TIMEOUT, work).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error))) => Err(Failure::from_error(&*error)),
        Ok(Err(panic)) => Err(Failure::from(&panic)),
        Err(_) => Err(Failure {
            causes: vec![format!(
                "it took longer than {}",
                crate::util::duration::show(STEP_TIMEOUT)
            )],
            panicked_at: None,
        }),
    }
}
