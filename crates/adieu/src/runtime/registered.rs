//! Tasks that the program has started by itself, with `tokio::spawn`, and then registers.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};

use crate::runtime::stop::Stop;
use crate::tracking::cancel::CancelToken;

/// A handle whose task does not outlive it.
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the task on behalf of tracked work. When that work is cancelled, by the stop or by `token`, the task is
/// aborted, and the work ends only when the task is gone: what it uses is closed after that. `None` if the program
/// itself has aborted the task.
///
/// A panic of the task goes on in here. Dropped, it aborts the task.
pub(crate) fn registered<T>(
    stop: Stop,
    token: Option<CancelToken>,
    mut task: AbortOnDrop<T>,
) -> impl Future<Output = Option<T>> {
    // Registered while work is being cancelled it is cleanup, as everything that is spawned then.
    let is_cleanup = stop.core.stop.is_cancelling();
    async move {
        let is_cancelled = || {
            let by_the_stop = stop.core.stop.is_cancelling() && !is_cleanup;
            by_the_stop || token.as_ref().is_some_and(CancelToken::is_cancelled)
        };
        // The shield puts the cut of the work around it off; the wake-up for it comes all the same.
        let joined = stop
            .shield(poll_fn(|cx| {
                if is_cancelled() {
                    task.0.abort();
                }
                Pin::new(&mut task).poll(cx)
            }))
            .await;
        match joined.map_err(JoinError::try_into_panic) {
            Ok(output) => Some(output),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Without the shield it is cut here and now.
            Err(Err(_)) if is_cancelled() => pending().await,
            Err(Err(_)) => None,
        }
    }
}
