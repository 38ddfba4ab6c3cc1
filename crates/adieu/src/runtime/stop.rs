//! The handle every task holds: knows of the stop, and starts work that the stop knows of.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use adieu_core::{ShutdownSignal, Winner, race};
use adieu_lifecycle::ComponentId;
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::TooLate;
use crate::runtime::component_stop::ComponentStop;
use crate::runtime::group::Group;
use crate::runtime::registered::{AbortOnDrop, registered};
use crate::runtime::shared::ServiceShared;
use crate::runtime::spawn::{self, TaskHandle};
use crate::runtime::stop_state::StopState;
use crate::tracking::cancel::CancelToken;
use crate::tracking::poll_slot;
use crate::util::spans::TaskSpan;

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
    pub(crate) core: Arc<ServiceShared>,
    /// Set for handles given to members of a group: what they spawn is cancelled with the group.
    pub(crate) group: Option<CancelToken>,
    /// Set for handles given to components: who speaks in [`Stop::note`], and what may be stopped alone.
    pub(crate) component: Option<Arc<ComponentStop>>,
}

impl Stop {
    pub(crate) const fn new(core: Arc<ServiceShared>) -> Self {
        Self {
            core,
            group: None,
            component: None,
        }
    }

    /// The one of this component, which its handle can request.
    pub(crate) fn of(mut self, part: ComponentId) -> Self {
        self.component = self.core.with_part(part, |part| Arc::clone(&part.stop));
        self
    }

    pub(crate) fn part(&self) -> Option<ComponentId> {
        Some(self.component.as_ref()?.part)
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
        if let Some(id) = self.part() {
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
    ///
    /// ```
    /// async fn serve(stop: adieu::Stop) {
    ///     stop.requested().await;
    ///     println!("no new work from here on");
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", serve); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    pub async fn requested(&self) {
        self.state().requested().await;
    }

    fn state(&self) -> &StopState {
        match &self.component {
            Some(component) => &component.state,
            None => &self.core.stop,
        }
    }

    /// The wait for the stop as a future that borrows nothing, for servers and libraries that take their stop as a `'static` future.
    ///
    /// Cancel-safe: dropping it forgets nothing.
    ///
    /// ```
    /// # async fn run_until(_: impl Future<Output = ()> + Send + 'static) {}
    /// async fn foreign_server(stop: adieu::Stop) {
    ///     run_until(stop.requested_owned()).await;
    /// }
    /// ```
    pub fn requested_owned(&self) -> impl Future<Output = ()> + Send + use<> {
        let stop = self.clone();
        async move { stop.requested().await }
    }

    /// A `CancellationToken` for code that takes one: it is cancelled when the stop is requested. Cancelling it does
    /// nothing to the service, nor to the tokens that others have.
    ///
    /// The other way round, `scope(..).stop_when(token.cancelled_owned())` ends a scope when a token is cancelled.
    ///
    /// ```
    /// # async fn library(token: tokio_util::sync::CancellationToken) { token.cancelled().await }
    /// async fn consume(stop: adieu::Stop) {
    ///     library(stop.token()).await;
    /// }
    /// ```
    #[cfg(feature = "tokio-util")]
    #[must_use]
    pub fn token(&self) -> tokio_util::sync::CancellationToken {
        let token = match &self.component {
            Some(component) => &component.token,
            None => &self.core.token,
        };
        let token = token.get_or_init(|| {
            let token = tokio_util::sync::CancellationToken::new();
            if self.is_requested() {
                token.cancel();
            } else {
                let (requested, theirs) = (self.requested_owned(), token.clone());
                // One for all tokens of a component, or of the service. It ends when the stop begins.
                self.core.runtime.spawn(async move {
                    requested.await;
                    theirs.cancel();
                });
            }
            token
        });
        token.child_token()
    }

    /// Whether the stop is requested.
    ///
    /// ```
    /// async fn index(stop: adieu::Stop) {
    ///     for document in 1..=1_000 {
    ///         if stop.is_requested() {
    ///             stop.note(format!("stopped before document {document}"));
    ///             return;
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", index); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn is_requested(&self) -> bool {
        // The service's own is known a moment before it is passed on.
        self.state().is_requested() || self.core.stop.is_requested()
    }

    /// Sleeps, and wakes at once when stopping. `true` if the whole time passed.
    ///
    /// Cancel-safe: dropping it forgets the time slept.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// async fn heartbeat(stop: adieu::Stop) {
    ///     while stop.sleep(Duration::from_secs(10)).await {
    ///         println!("still here");
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", heartbeat); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    pub async fn sleep(&self, duration: Duration) -> bool {
        self.until(tokio::time::sleep(duration)).await.is_some()
    }

    /// Waits for `future`, and gives up when stopping: then `None`, and the future is dropped.
    ///
    /// Looks at the stop first, so a loop around a source that is always ready ends too. The future must
    /// be cancel-safe; put the part that is not into [`Stop::shield`].
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
        match race(self.requested(), future).await {
            Winner::First(()) => None,
            Winner::Second(output) => Some(output),
        }
    }

    /// Waits for `future`, and gives up when the cancelling begins.
    #[cfg(feature = "state")]
    pub(crate) async fn until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        match race(self.core.stop.cancelling(), future).await {
            Winner::First(()) => None,
            Winner::Second(output) => Some(output),
        }
    }

    /// Runs `future` to its end even when its task is cancelled meanwhile; the task is cut right after it.
    ///
    /// The shield holds within the cancel phase's budget. What does not end by then is abandoned and named
    /// in the report. Dropping the returned future lowers the shield.
    ///
    /// ```
    /// # async fn take_from_one_account() {}
    /// # async fn give_to_the_other() {}
    /// async fn transfer(stop: adieu::Stop) {
    ///     stop.requested().await;
    ///     stop.shield(async {
    ///         take_from_one_account().await;
    ///         give_to_the_other().await; // never only the first of the two
    ///     })
    ///     .await;
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", transfer); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    pub fn shield<F: Future>(&self, future: F) -> Shield<F> {
        Shield {
            future,
            raised: Raised(false),
        }
    }

    /// When work will be cancelled; `None` while no stop was requested.
    ///
    /// ```
    /// async fn finish(stop: adieu::Stop) {
    ///     stop.requested().await;
    ///     let left = stop.deadline().map(|end| end - tokio::time::Instant::now());
    ///     println!("{left:?} for what is in flight");
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", finish); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.core.stop.deadline()?;
        Some(self.core.start + deadline)
    }

    /// Starts tracked work. The stop waits for it, cancels it at the deadline, and names it if it must.
    ///
    /// A panic in it stops the service, as a failed task does. Dropping the handle lets the work go on.
    ///
    /// ```
    /// async fn order(stop: adieu::Stop) -> Result<(), adieu::TooLate> {
    ///     stop.spawn("receipt", async {
    ///         println!("sent, also if the service stops meanwhile");
    ///     })?;
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", order); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
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

    /// Registers a task that runs already, started with `tokio::spawn` or by a library: the stop waits for it, aborts it
    /// at the deadline, and names it then. A panic of it stops the service.
    ///
    /// ```
    /// async fn poll(stop: adieu::Stop) -> Result<(), adieu::TooLate> {
    ///     let updates = tokio::spawn(async { /* of a library */ });
    ///     stop.register_task("updates", updates)?;
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", poll); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TooLate`] once the release of resources has begun. The task is aborted.
    #[track_caller]
    pub fn register_task<T>(
        &self,
        name: impl Into<Cow<'static, str>>,
        task: JoinHandle<T>,
    ) -> Result<(), TooLate>
    where
        T: Send + 'static,
    {
        let work = registered(self.clone(), self.group.clone(), AbortOnDrop(task));
        let work = async move { drop(work.await) };
        spawn::task(self, name.into(), Location::caller(), work).map(drop)
    }

    /// Runs blocking code on the runtime's pool for it, tracked: the stop waits for it and names it when it
    /// does not end. Code that is running cannot be cancelled; it may look at [`Stop::is_requested`].
    ///
    /// ```
    /// async fn digest(stop: adieu::Stop) -> adieu::Result {
    ///     let sum = stop.blocking("sum", || (1..=1_000_u64).sum::<u64>())?.await?;
    ///     assert_eq!(sum, 500_500);
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", digest); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
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
        let (place, span) = (Location::caller(), TaskSpan::current());
        spawn::blocking(&self.core, name.into(), place, None, span, code)
    }

    /// A group of tasks that live together: it ends when all have ended, and one failure cancels the others.
    ///
    /// ```
    /// async fn import(stop: adieu::Stop) -> adieu::Result {
    ///     let mut pages = stop.group::<u32, std::io::Error>();
    ///     for page in 1..=3 {
    ///         pages.spawn(format!("page {page}"), async move |_stop| Ok(page * 10))?;
    ///     }
    ///     assert_eq!(pages.join().await?, [10, 20, 30]);
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(async |app| { app.task("t", import); Ok(()) }).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    pub fn group<T, E>(&self) -> Group<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        Group::new(self)
    }
}

impl ShutdownSignal for Stop {
    fn is_requested(&self) -> bool {
        Self::is_requested(self)
    }

    fn requested(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Self::requested(self))
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
            poll_slot::lower_shield();
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
            poll_slot::raise_shield();
        }
        let polled = this.future.poll(cx);
        if polled.is_ready() {
            this.raised.lower();
        }
        polled
    }
}
