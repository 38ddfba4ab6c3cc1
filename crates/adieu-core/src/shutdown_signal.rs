//! How an engine sees the stop of the service that it works for.

use std::future::Future;
use std::pin::Pin;

use crate::race::{Winner, race};

/// The stop of a service, as an engine sees it: whether it is requested, and a wait for that. `adieu::Stop` is one.
pub trait ShutdownSignal: Send + Sync {
    /// Whether the stop is requested.
    fn is_requested(&self) -> bool;

    /// Completes when the stop is requested; at once if it was already. Cancel-safe.
    fn requested(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl dyn ShutdownSignal + '_ {
    /// Waits for `future`, and gives up when the stop is requested: then `None`, and the future is dropped. Looks at the
    /// stop first.
    ///
    /// Cancel-safe if `future` is.
    pub async fn until<F: Future>(&self, future: F) -> Option<F::Output> {
        match race(self.requested(), future).await {
            Winner::First(()) => None,
            Winner::Second(output) => Some(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    struct Requested(bool);

    impl ShutdownSignal for Requested {
        fn is_requested(&self) -> bool {
            self.0
        }

        fn requested(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            match self.0 {
                true => Box::pin(ready(())),
                false => Box::pin(pending()),
            }
        }
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_future_or_with_the_stop() {
        let running: &dyn ShutdownSignal = &Requested(false);
        let stopping: &dyn ShutdownSignal = &Requested(true);
        assert_eq!(running.until(ready(1)).await, Some(1));
        assert_eq!(stopping.until(ready(1)).await, None);
    }
}
