//! A typed value that a reload replaces: all code may read it; registered checks and parts check and apply it.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{Source, StagedValue, Step};
use crate::error::{BoxError, Error, ErrorKind};
use crate::runtime::ending::{BoxFuture, Ending};
use crate::runtime::shared::ServiceShared;

/// A value that can be reloaded, about to be loaded for the first time. Await it; made by
/// [`App::reload`](crate::App::reload).
///
/// Dropped while it loads, it leaves nothing behind.
#[must_use = "it is loaded when it is awaited"]
pub struct ReloadBuilder<'app, F, T> {
    core: &'app Arc<ServiceShared>,
    name: Cow<'static, str>,
    load: F,
    #[cfg(feature = "watch")]
    paths: Vec<std::path::PathBuf>,
    value: PhantomData<fn() -> T>,
}

impl<'app, F, T> ReloadBuilder<'app, F, T> {
    pub(crate) const fn new(
        core: &'app Arc<ServiceShared>,
        name: Cow<'static, str>,
        load: F,
    ) -> Self {
        Self {
            core,
            name,
            load,
            #[cfg(feature = "watch")]
            paths: Vec::new(),
            value: PhantomData,
        }
    }

    /// Reloads when this file has changed, too; in a directory, when something directly in it has. On Linux; elsewhere it
    /// is an error at the start. Feature `watch`.
    ///
    /// A file that is written, replaced by a rename, or led to by a link that is swapped, as in a ConfigMap of
    /// Kubernetes, has changed when it has been quiet for 200 ms. One that is removed has not: the reload comes when it
    /// is there again. Nothing polls. Like SIGHUP it reloads everything, and a change that is refused leaves all as it
    /// was before.
    ///
    /// ```
    /// # async fn read(_: &str) -> std::io::Result<String> { Ok(String::new()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let config = app.reload("config", || read("/etc/orders.toml")).watch("/etc/orders.toml").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "watch")]
    pub fn watch(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }
}

type Load<T> = Box<dyn Fn() -> BoxFuture<Result<T, BoxError>> + Send + Sync>;

impl<'app, F, Fut, T, E> IntoFuture for ReloadBuilder<'app, F, T>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    E: Into<BoxError>,
    T: Send + Sync + 'static,
{
    type Output = Result<Reloadable<T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'app>>;

    fn into_future(self) -> Self::IntoFuture {
        let load = self.load;
        let load: Load<T> = Box::new(move || {
            let loading = load();
            Box::pin(async move { loading.await.map_err(Into::into) })
        });
        let (core, name): (_, Arc<str>) = (self.core, self.name.into());
        #[cfg(feature = "watch")]
        let paths = self.paths;
        Box::pin(async move {
            // Before the first load: what changes while it loads is a change.
            #[cfg(all(target_os = "linux", feature = "watch"))]
            let watch = begin_watch(&name, paths).await?;
            #[cfg(all(not(target_os = "linux"), feature = "watch"))]
            cannot_watch(&name, &paths)?;
            let watched = first(core, Arc::clone(&name), load).await?;
            #[cfg(all(target_os = "linux", feature = "watch"))]
            if let Some(watch) = watch {
                watch.keep(core, name);
            }
            Ok(watched)
        })
    }
}

#[cfg(all(target_os = "linux", feature = "watch"))]
async fn begin_watch(
    name: &Arc<str>,
    paths: Vec<std::path::PathBuf>,
) -> Result<Option<super::FileWatch>, Error> {
    if paths.is_empty() {
        return Ok(None);
    }
    let watch = super::FileWatch::on(paths).await.map_err(|cause| {
        Error::new(ErrorKind::Load {
            name: Arc::clone(name),
            cause: cause.into(),
        })
    })?;
    Ok(Some(watch))
}

#[cfg(all(not(target_os = "linux"), feature = "watch"))]
fn cannot_watch(name: &str, paths: &[std::path::PathBuf]) -> Result<(), Error> {
    match paths.first() {
        None => Ok(()),
        Some(path) => Err(Error::config(format!(
            "`{name}` cannot watch {}: files are watched on Linux only; leave `.watch` out, and send SIGHUP",
            path.display()
        ))),
    }
}

async fn first<T: Send + Sync + 'static>(
    core: &Arc<ServiceShared>,
    name: Arc<str>,
    load: Load<T>,
) -> Result<Reloadable<T>, Error> {
    let value = load().await.map_err(|cause| {
        Error::new(ErrorKind::Load {
            name: Arc::clone(&name),
            cause,
        })
    })?;
    let (show, seen) = watch::channel(Arc::new(value));
    let value = Arc::new(Value {
        name,
        load,
        show,
        askers: Mutex::default(),
    });
    let source: Arc<dyn Source> = Arc::<Value<T>>::clone(&value);
    core.reloads().add(source)?;
    Ok(Reloadable { seen, value })
}

/// A value that a reload replaces. Cheap to clone, and each clone sees every change on its own.
///
/// ```
/// # struct Config { workers: usize, level: String }
/// # async fn read() -> std::io::Result<Config> { Ok(Config { workers: 1, level: String::new() }) }
/// # fn set_level(_: &str) -> std::io::Result<()> { Ok(()) }
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// let config = app.reload("config", || read()).await?;
/// config.check("workers", |new| if new.workers > 0 { Ok(()) } else { Err("no workers") });
/// config.apply("log level", |_from, to| async move { set_level(&to.level) });
/// app.task("pool", move |stop| async move {
///     let mut config = config;
///     while let Some(now) = stop.until(config.changed()).await {
///         println!("{} workers from now on", now.workers);
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct Reloadable<T> {
    seen: watch::Receiver<Arc<T>>,
    value: Arc<Value<T>>,
}

impl<T> Reloadable<T> {
    /// The value in force.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.seen.borrow())
    }

    /// Completes with the new value when it has changed since this handle last said so. Several changes in the
    /// meantime are one.
    ///
    /// Cancel-safe: a change is noted in the same poll that returns it.
    pub async fn changed(&mut self) -> Arc<T> {
        if self.seen.changed().await.is_err() {
            // Cannot be: the sender lives as long as this handle.
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.seen.borrow_and_update())
    }

    /// Looks at every new value before any part applies it; an error refuses the reload, and the old value stays.
    ///
    /// `part` is who refuses, in log and report. The value in force is not looked at: check that in `setup`.
    pub fn check<E>(
        &self,
        part: impl Into<Arc<str>>,
        check: impl Fn(&T) -> Result<(), E> + Send + Sync + 'static,
    ) where
        E: Into<BoxError>,
    {
        self.value.askers().checks.push(Validation {
            part: part.into(),
            check: Arc::new(move |new| check(new).map_err(Into::into)),
        });
    }

    /// Takes part in the change: called with the value in force and the new one, before any reader sees the new one.
    ///
    /// An error, a panic or more than 30 seconds refuse the reload for all: each part that has applied it is called again
    /// with the two exchanged, last first. A call that has begun is not dropped, also if the service stops.
    pub fn apply<F, Fut>(&self, part: impl Into<Arc<str>>, apply: F)
    where
        F: Fn(Arc<T>, Arc<T>) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        self.value.askers().appliers.push(Applier {
            part: part.into(),
            apply: Arc::new(move |from, to| {
                let work = apply(from, to);
                Box::pin(async move { work.await.into_result() })
            }),
        });
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self {
            seen: self.seen.clone(),
            value: Arc::clone(&self.value),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reloadable").field(&*self.get()).finish()
    }
}

struct Value<T> {
    name: Arc<str>,
    load: Load<T>,
    show: watch::Sender<Arc<T>>,
    askers: Mutex<Askers<T>>,
}

/// Who asked, in the order they did.
struct Askers<T> {
    checks: Vec<Validation<T>>,
    appliers: Vec<Applier<T>>,
}

impl<T> Default for Askers<T> {
    fn default() -> Self {
        Self {
            checks: Vec::new(),
            appliers: Vec::new(),
        }
    }
}

type Look<T> = Arc<dyn Fn(&T) -> Result<(), BoxError> + Send + Sync>;
type Apply<T> = Arc<dyn Fn(Arc<T>, Arc<T>) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

struct Validation<T> {
    part: Arc<str>,
    check: Look<T>,
}

struct Applier<T> {
    part: Arc<str>,
    apply: Apply<T>,
}

impl<T> Value<T> {
    fn askers(&self) -> MutexGuard<'_, Askers<T>> {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + Sync + 'static> Source for Value<T> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn load(self: Arc<Self>) -> BoxFuture<Result<Box<dyn StagedValue>, BoxError>> {
        Box::pin(async move {
            let new = Arc::new((self.load)().await?);
            let staged: Box<dyn StagedValue> = Box::new(NewValue { value: self, new });
            Ok(staged)
        })
    }
}

struct NewValue<T> {
    value: Arc<Value<T>>,
    new: Arc<T>,
}

impl<T: Send + Sync + 'static> StagedValue for NewValue<T> {
    fn check(&self) -> Result<(), (Arc<str>, BoxError)> {
        // Outside the lock: a check may add further checks.
        let checks: Vec<_> = self
            .value
            .askers()
            .checks
            .iter()
            .map(|asker| (Arc::clone(&asker.part), Arc::clone(&asker.check)))
            .collect();
        checks
            .into_iter()
            .try_for_each(|(part, check)| check(&self.new).map_err(|error| (part, error)))
    }

    fn steps(&self) -> Vec<Step> {
        let old = Arc::clone(&self.value.show.borrow());
        let step = |asker: &Applier<T>| {
            let apply = |from: &Arc<T>, to: &Arc<T>| {
                let (apply, from, to) =
                    (Arc::clone(&asker.apply), Arc::clone(from), Arc::clone(to));
                Box::new(move || apply(from, to))
            };
            Step {
                name: Arc::clone(&asker.part),
                apply: apply(&old, &self.new),
                undo: apply(&self.new, &old),
            }
        };
        self.value.askers().appliers.iter().map(step).collect()
    }

    fn commit(self: Box<Self>) {
        self.value.show.send_replace(self.new);
    }
}
