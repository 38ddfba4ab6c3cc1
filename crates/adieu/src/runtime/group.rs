//! Task groups: tasks that live together and fail together.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::error::{TaskError, TooLate};
use crate::runtime::component_stop::ComponentStop;
use crate::runtime::shared::ServiceShared;
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::runtime::tracked::{Interrupted, Tracked};
use crate::tracking::cancel::CancelToken;
use crate::tracking::task_registry::WorkKind;
use crate::util::spans::TaskSpan;

/// Tasks that live together. The group ends when all have ended; the first failure cancels the others.
///
/// Made by [`Stop::group`]. Dropping it, or the future of [`Group::join`], cancels its tasks, and with them
/// what they spawned through the [`Stop`] they were given; the service's stop still waits for them.
///
/// ```
/// # use std::io;
/// # async fn fetch(page: u32) -> io::Result<u32> { Ok(page * 10) }
/// async fn import(stop: adieu::Stop) -> adieu::Result {
///     let mut pages = stop.group::<u32, io::Error>();
///     for page in 1..=3 {
///         pages.spawn(format!("page {page}"), move |_stop| fetch(page))?;
///     }
///     let items = pages.join().await?; // typed, in the order of spawning
///     assert_eq!(items, [10, 20, 30]);
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let report = adieu::scope("t").run(async |app| { app.task("import", import); Ok(()) }).await;
/// # assert_eq!(report.exit_code(), 0, "{report}");
/// # }
/// ```
#[must_use = "dropping a group cancels its tasks: join it"]
pub struct Group<T: 'static, E: 'static> {
    core: Arc<ServiceShared>,
    /// Of the component that the group belongs to: its members get its stop.
    component: Option<Arc<ComponentStop>>,
    token: CancelToken,
    tasks: JoinSet<(usize, MemberEnd<T, E>)>,
    members: Vec<Member>,
}

type MemberEnd<T, E> = Result<Result<T, E>, Interrupted>;

#[derive(Clone, Debug)]
struct Member {
    name: String,
    place: &'static Location<'static>,
}

/// Why a group failed: its first failure, with what had been done and what was cut.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupError<T, E> {
    /// The task that failed first.
    pub task: String,
    /// Where in the source it was spawned.
    pub place: &'static Location<'static>,
    /// Why.
    pub cause: GroupCause<E>,
    /// The results of those that had finished, by name.
    pub finished: Vec<(String, T)>,
    /// Further failures, by name: of those that failed while they were being cancelled.
    pub also_failed: Vec<(String, GroupCause<E>)>,
    /// The names of those that were cancelled.
    pub cancelled: Vec<String>,
}

/// How a member of a group failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupCause<E> {
    /// It returned an error.
    Error(E),
    /// It panicked, or the service cancelled it.
    Task(TaskError),
}

impl<E: fmt::Display> fmt::Display for GroupCause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Task(error) => error.fmt(f),
        }
    }
}

impl<T, E> fmt::Display for GroupError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "task `{}` of a group failed (spawned at {})",
            self.task, self.place
        )
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for GroupError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            GroupCause::Error(error) => Some(error),
            GroupCause::Task(error) => Some(error),
        }
    }
}

/// What [`Group::cancel`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cancelled<T, E> {
    /// Those that had ended by themselves, by name.
    pub done: Vec<(String, Result<T, GroupCause<E>>)>,
    /// Those that ended because they were cancelled.
    pub cancelled: Vec<String>,
    /// Those that had not ended when the time was up.
    pub pending: Vec<String>,
}

/// What has come in so far.
struct Harvest<T, E> {
    results: Vec<Option<T>>,
    first: Option<(usize, GroupCause<E>)>,
    also: Vec<(usize, GroupCause<E>)>,
    cancelled: Vec<usize>,
}

impl<T, E> Group<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    pub(crate) fn new(stop: &Stop) -> Self {
        Self {
            core: Arc::clone(&stop.core),
            component: stop.component.clone(),
            token: CancelToken::default(),
            tasks: JoinSet::new(),
            members: Vec::new(),
        }
    }

    /// Starts a member. The [`Stop`] it is given knows the group: what it spawns is cancelled with it.
    ///
    /// # Errors
    /// [`TooLate`] once the release of resources has begun.
    #[track_caller]
    pub fn spawn<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        code: F,
    ) -> Result<(), TooLate>
    where
        F: FnOnce(Stop) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (name, place) = (name.into(), Location::caller());
        let slot = spawn::register(&self.core, name.clone(), place, WorkKind::Task, None)?;
        let stop = Stop {
            core: Arc::clone(&self.core),
            group: Some(self.token.clone()),
            component: self.component.clone(),
        };
        let member = self.token.wrap(code(stop));
        let tracked =
            Tracked::new(Arc::clone(&self.core), slot, true, member).in_span(TaskSpan::current());
        let index = self.members.len();
        self.members.push(Member {
            name: name.into_owned(),
            place,
        });
        let work = async move {
            let end = tracked
                .await
                .and_then(|end| end.map_err(|_| Interrupted::Cancelled));
            (index, end)
        };
        #[cfg(tokio_unstable)]
        let spawned = (self.tasks.build_task().name(&self.members[index].name))
            .spawn_on(work, &self.core.runtime)
            .unwrap_or_else(|error| panic!("tokio spawned no task: {error}"));
        #[cfg(not(tokio_unstable))]
        let spawned = self.tasks.spawn_on(work, &self.core.runtime);
        // The set has it.
        drop(spawned);
        Ok(())
    }

    /// Waits for all. The results come in the order of spawning.
    ///
    /// Dropping the future cancels the members.
    ///
    /// # Errors
    /// The first failure, after the others have been cancelled and have ended.
    pub async fn join(mut self) -> Result<Vec<T>, GroupError<T, E>> {
        let mut harvest = self.harvest();
        while let Some(joined) = self.tasks.join_next().await {
            self.gather(&mut harvest, joined.ok());
        }
        let Some((index, cause)) = harvest.first else {
            return Ok(harvest.results.into_iter().flatten().collect());
        };
        let names = std::mem::take(&mut self.members);
        let name = |index: usize| {
            names
                .get(index)
                .map(|member| member.name.clone())
                .unwrap_or_default()
        };
        let mut finished: Vec<_> = Vec::new();
        for (index, result) in harvest.results.into_iter().enumerate() {
            finished.extend(result.map(|result| (name(index), result)));
        }
        Err(GroupError {
            task: name(index),
            place: names
                .get(index)
                .map_or(Location::caller(), |member| member.place),
            cause,
            finished,
            also_failed: harvest
                .also
                .into_iter()
                .map(|(index, cause)| (name(index), cause))
                .collect(),
            cancelled: harvest.cancelled.into_iter().map(name).collect(),
        })
    }

    /// Cancels all and waits at most so long; says who was done, who was cut and who is still not gone.
    ///
    /// The pending ones stay tracked: the service's stop waits for them and names them. Dropping the future
    /// is the same as not waiting.
    pub async fn cancel(mut self, wait: Duration) -> Cancelled<T, E> {
        self.token.cancel();
        let mut harvest = self.harvest();
        let mut pending: Vec<bool> = vec![true; self.members.len()];
        let gathering = async {
            while let Some(joined) = self.tasks.join_next().await {
                if let Ok((index, _)) = &joined {
                    pending[*index] = false;
                }
                self.gather(&mut harvest, joined.ok());
            }
        };
        // What has come in before the time is up is in the harvest already; nothing is lost by the drop.
        let _ = tokio::time::timeout(wait, gathering).await;
        self.tasks.detach_all();
        let name = |index: usize| self.members[index].name.clone();
        let mut done: Vec<_> = Vec::new();
        for (index, result) in harvest.results.into_iter().enumerate() {
            done.extend(result.map(|result| (name(index), Ok(result))));
        }
        done.extend(
            harvest
                .first
                .into_iter()
                .chain(harvest.also)
                .map(|(index, cause)| (name(index), Err(cause))),
        );
        Cancelled {
            done,
            cancelled: harvest.cancelled.into_iter().map(name).collect(),
            pending: (0..pending.len())
                .filter(|&index| pending[index])
                .map(name)
                .collect(),
        }
    }

    fn harvest(&self) -> Harvest<T, E> {
        let results = self.members.iter().map(|_| None).collect();
        Harvest {
            results,
            first: None,
            also: Vec::new(),
            cancelled: Vec::new(),
        }
    }

    fn gather(&self, harvest: &mut Harvest<T, E>, joined: Option<(usize, MemberEnd<T, E>)>) {
        // A join error is a task that the runtime dropped at its own end: no caller is left to return it to.
        let Some((index, end)) = joined else { return };
        let cause = match end {
            Ok(Ok(result)) => {
                harvest.results[index] = Some(result);
                return;
            }
            Ok(Err(error)) => GroupCause::Error(error),
            Err(Interrupted::Cancelled) if self.token.is_cancelled() => {
                harvest.cancelled.push(index);
                return;
            }
            Err(Interrupted::Cancelled) => GroupCause::Task(TaskError::Cancelled),
            Err(Interrupted::Panicked(panic)) => GroupCause::Task((*panic).into()),
        };
        if harvest.first.is_none() {
            harvest.first = Some((index, cause));
            self.token.cancel();
        } else {
            harvest.also.push((index, cause));
        }
    }
}

impl<T, E> Drop for Group<T, E> {
    fn drop(&mut self) {
        // Through the token and not by aborting, so that shields hold.
        self.token.cancel();
        self.tasks.detach_all();
    }
}

impl<T, E> fmt::Debug for Group<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}
