//! The handle every task holds: knows of the stop, and starts work that the stop knows of.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cancel::Token;
use crate::core::Core;
use crate::error::TooLate;
use crate::group::Group;
use crate::lifecycle::PartId;
use crate::seat;
use crate::spawn::{self, TaskHandle};

/// How far the stop has come, for everyone who looks.
pub(crate) struct StopState {
    stage: AtomicU8,
    /// When work will be cancelled, in nanoseconds since the start; set before the stage.
    deadline: AtomicU64,
    notify: Notify,
}

const REQUESTED: u8 = 1;
const CANCELLING: u8 = 2;

impl StopState {
    pub(crate) fn new() -> Self {
        Self {
            stage: AtomicU8::new(0),
            deadline: AtomicU64::new(0),
            notify: Notify::new(),
        }
    }

    pub(crate) fn request(&self, deadline: Duration) {
        self.deadline.store(
            u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        self.raise(REQUESTED);
    }

    pub(crate) fn cancel(&self) {
        self.raise(CANCELLING);
    }

    fn raise(&self, stage: u8) {
        // Release, paired with the acquire of whoever sees the stage: they see the deadline too.
        self.stage.fetch_max(stage, Ordering::Release);
        self.notify.notify_waiters();
    }

    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= REQUESTED
    }

    #[inline]
    pub(crate) fn is_cancelling(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= CANCELLING
    }
}

/// A task's view of the stop, and its way to start more work.
///
/// Cheap to clone. It stays valid after the end of the service: then the stop is requested, and spawning is an
/// error.
///
/// ```
/// # use std::time::Duration;
/// async fn heartbeat(stop: adieu::Stop) {
///     while stop.sleep(Duration::from_secs(10)).await {
///         println!("still here");
///     }
///     println!("goodbye"); // at once when the stop is requested, not up to ten seconds later
/// }
/// ```
#[derive(Clone)]
pub struct Stop {
    pub(crate) core: Arc<Core>,
    /// Set for handles given to members of a group: what they spawn is cancelled with the group.
    pub(crate) group: Option<Token>,
    /// Set for handles given to tasks of the service: who speaks in [`Stop::note`].
    pub(crate) part: Option<PartId>,
}

impl Stop {
    pub(crate) const fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            group: None,
            part: None,
        }
    }

    pub(crate) const fn of(mut self, part: PartId) -> Self {
        self.part = Some(part);
        self
    }

    /// Adds a line to what the report says of this task: how much was left, what it used, where it went on.
    ///
    /// Only the handle that a task of the service was given, and clones of it, speak for a part; the words of any
    /// other handle are dropped. A part has at most 64 notes.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.task("importer", |stop| async move {
    ///     stop.requested().await;
    ///     stop.note("stopped at row 4,711");
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn note(&self, note: impl Into<String>) {
        const MOST: usize = 64;
        if let Some(id) = self.part {
            self.core.with_part(id, |part| {
                if part.notes.len() < MOST {
                    part.notes.push(note.into());
                }
            });
        }
    }

    /// Completes when the stop is requested; at once if it was already.
    ///
    /// Cancel-safe: dropping it forgets nothing.
    pub async fn requested(&self) {
        // Made before the look: it completes for every notification from here on.
        let notified = self.core.stop.notify.notified();
        if !self.is_requested() {
            notified.await;
        }
    }

    /// Whether the stop is requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.core.stop.is_requested()
    }

    /// Sleeps, and wakes at once when stopping. `true` if the whole time passed.
    ///
    /// Cancel-safe: dropping it forgets the time slept.
    pub async fn sleep(&self, duration: Duration) -> bool {
        self.until(tokio::time::sleep(duration)).await.is_some()
    }

    /// Waits for `future`, and gives up when stopping: then `None`, and the future is dropped.
    ///
    /// Looks at the stop first, so a loop around a source that is always ready ends too. The future must
    /// bear being dropped while it waits; put the part that must not into [`Stop::shield`].
    ///
    /// Cancel-safe if `future` is.
    ///
    /// ```
    /// # use tokio::sync::mpsc;
    /// # async fn handle(_job: u32) {}
    /// async fn consume(mut jobs: mpsc::Receiver<u32>, stop: adieu::Stop) {
    ///     while let Some(Some(job)) = stop.until(jobs.recv()).await {
    ///         handle(job).await; // taken, so finished
    ///     }
    /// }
    /// ```
    pub async fn until<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut stop = pin!(self.requested());
        let mut future = pin!(future);
        poll_fn(|cx| match stop.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Waits for `future`, and gives up when the cancelling begins.
    #[cfg(feature = "state")]
    pub(crate) async fn until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        let cancelling = async {
            loop {
                // Made before the look, as in `requested`.
                let notified = self.core.stop.notify.notified();
                if self.core.stop.is_cancelling() {
                    return;
                }
                notified.await;
            }
        };
        let (mut cancelling, mut future) = (pin!(cancelling), pin!(future));
        poll_fn(|cx| match cancelling.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Runs `future` to its end even when its task is cancelled meanwhile; the task is cut right after it.
    ///
    /// The shield holds within the cancel phase's budget. What does not end by then is abandoned and named
    /// in the report. Dropping the returned future lowers the shield.
    pub fn shield<F: Future>(&self, future: F) -> Shield<F> {
        Shield {
            future,
            raised: Raised(false),
        }
    }

    /// When work will be cancelled; `None` while nobody has asked to stop.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let nanos = self
            .is_requested()
            .then(|| self.core.stop.deadline.load(Ordering::Relaxed))?;
        Some(self.core.start + Duration::from_nanos(nanos))
    }

    /// Starts tracked work. The stop waits for it, cancels it at the deadline, and names it if it must.
    ///
    /// A panic in it stops the service, as a failed task does. Dropping the handle lets the work go on.
    ///
    /// # Errors
    /// [`TooLate`] once the release of resources has begun: work that would silently never run is refused.
    #[inline]
    #[track_caller]
    pub fn spawn<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: F,
    ) -> Result<TaskHandle<F::Output>, TooLate>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::task(self, name.into(), Location::caller(), future)
    }

    /// Runs blocking code on the runtime's pool for it, tracked: the stop waits for it and names it when it
    /// does not end. Code that is running cannot be cancelled; it may look at [`Stop::is_requested`].
    ///
    /// # Errors
    /// [`TooLate`] once the release of resources has begun.
    #[track_caller]
    pub fn blocking<F, T>(
        &self,
        name: impl Into<Cow<'static, str>>,
        code: F,
    ) -> Result<TaskHandle<T>, TooLate>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn::blocking(&self.core, name.into(), Location::caller(), None, code)
    }

    /// A group of tasks that live together: it ends when all have ended, and one failure cancels the others.
    pub fn group<T, E>(&self) -> Group<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        Group::new(Arc::clone(&self.core))
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop")
            .field("service", &self.core.name)
            .field("requested", &self.is_requested())
            .finish()
    }
}

pin_project! {
    /// A future that is not cut in the middle. Made by [`Stop::shield`].
    #[must_use = "a shield does nothing until it is awaited"]
    pub struct Shield<F> {
        #[pin]
        future: F,
        raised: Raised,
    }
}

/// Lowers the shield also when the future is dropped half-way, as the loser of a race is.
struct Raised(bool);

impl Raised {
    fn lower(&mut self) {
        if std::mem::take(&mut self.0) {
            seat::lower_shield();
        }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.lower();
    }
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !std::mem::replace(&mut this.raised.0, true) {
            seat::raise_shield();
        }
        let polled = this.future.poll(cx);
        if polled.is_ready() {
            this.raised.lower();
        }
        polled
    }
}
