//! What `setup` holds: registers the parts of the service.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use crate::component::{self, BlockingPart, Ending, HookPart, Resource, TaskPart};
use crate::core::Core;
use crate::error::{BoxError, Error};
use crate::hear::{self, Signal};
use crate::lifecycle::{Cause, Plan};
use crate::report::{Ledger, PartKind};
use crate::stop::Stop;
use crate::supervise::Restart;

/// The service under construction. Program order is start order; the stop goes the other way.
pub struct App {
    pub(crate) core: Arc<Core>,
    #[cfg_attr(
        not(feature = "admin"),
        expect(dead_code, reason = "the admin port shows it")
    )]
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    misuse: Option<Error>,
}

impl App {
    pub(crate) const fn new(core: Arc<Core>, ledger: Arc<Mutex<Ledger>>) -> Self {
        Self {
            core,
            ledger,
            misuse: None,
        }
    }

    /// Remembers what cannot be; `setup` then ends with it, whatever it returns.
    pub(crate) fn misuse(&mut self, error: Error) {
        self.misuse.get_or_insert(error);
    }

    pub(crate) fn take_misuse(&mut self) -> Option<Error> {
        self.misuse.take()
    }

    /// Opens a resource: a pool, a client, a file. Await it; the value comes back, and a clone of it is kept
    /// for [`Resource::stop`].
    ///
    /// ```
    /// # struct Pool; impl Pool { async fn connect(_: &str) -> std::io::Result<std::sync::Arc<Self>> { Ok(Pool.into()) } async fn close(&self) {} }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let db = app.resource("postgres", Pool::connect("…")).stop(|db| async move { db.close().await }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn resource<F, T, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        open: F,
    ) -> Resource<'_, F, T>
    where
        F: Future<Output = Result<T, E>>,
        E: Into<BoxError>,
    {
        component::resource(&self.core, name.into(), Location::caller(), open)
    }

    /// Opens a store for what must outlive the process: cursors, counters, the last run of a job. Await it; the
    /// handle gives typed access to each piece of state.
    ///
    /// It is a resource named `store`: open it before the tasks that save into it, and it is closed after them.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use adieu::{App, FileStore};
    ///
    /// #[derive(Default, Serialize, Deserialize)]
    /// struct Visits { count: u64 }
    ///
    /// async fn setup(app: &mut App) -> adieu::Result {
    ///     let store = app.store(FileStore::open("/var/lib/orders")).await?;
    ///     let visits = store.state::<Visits>("visits");
    ///     let mut seen = visits.load().await?.map(|found| found.value).unwrap_or_default();
    ///     seen.count += 1;
    ///     visits.save(&seen).await?; // durable
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "state")]
    #[track_caller]
    pub fn store<O, S, E>(&mut self, open: O) -> crate::StorePart<'_, O>
    where
        O: std::future::IntoFuture<Output = Result<S, E>>,
        S: crate::Store,
        E: Into<BoxError>,
    {
        crate::StorePart::new(&self.core, Location::caller(), open)
    }

    /// Starts a task. It is given a [`Stop`] and should end soon after the stop is requested.
    ///
    /// An error or a panic stops the service, unless [`TaskPart::report_only`] says otherwise; see
    /// [`App::restarting`] for a task that is started again. When all tasks have ended, the service ends too.
    #[track_caller]
    pub fn task<F, Fut>(&mut self, name: impl Into<Cow<'static, str>>, code: F) -> TaskPart<'_>
    where
        F: FnOnce(Stop) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        TaskPart::new(self, name.into(), Location::caller(), component::once(code))
    }

    /// Starts a task that is started again when it fails, later each time. When it fails too often, the service
    /// stops.
    ///
    /// ```
    /// # use adieu::Restart;
    /// # async fn listen(_stop: adieu::Stop) -> std::io::Result<()> { Ok(()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.restarting("listener", Restart::default(), |stop| listen(stop));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn restarting<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        restart: Restart,
        code: F,
    ) -> TaskPart<'_>
    where
        F: FnMut(Stop) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        TaskPart::new(
            self,
            name.into(),
            Location::caller(),
            component::again(restart, code),
        )
    }

    /// Starts a worker: work in steps, with a cursor that survives. Its state is kept in the store under the worker's
    /// name.
    ///
    /// It is stopped at [`Worker::until_stop`](crate::Worker::until_stop) only: a step that was begun is finished, and
    /// what was reported by [`Worker::checkpoint`](crate::Worker::checkpoint) is saved on the way out. After a
    /// crash it goes on from the last checkpoint that was saved. A panic saves nothing more.
    ///
    /// ```
    /// use adieu::{App, FileStore, Worker};
    ///
    /// async fn setup(app: &mut App) -> adieu::Result {
    ///     let store = app.store(FileStore::open("/var/lib/orders")).await?;
    ///     app.worker("importer", store, import);
    ///     Ok(())
    /// }
    ///
    /// async fn import(mut worker: Worker<u64>) -> adieu::Result {
    ///     let mut last = worker.resume().await?.unwrap_or(0);
    ///     while let Some(id) = worker.until_stop(next_order(last)).await {
    ///         // …
    ///         last = id;
    ///         worker.checkpoint(&last).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// async fn next_order(after: u64) -> u64 {
    ///     after + 1
    /// }
    /// ```
    #[cfg(feature = "state")]
    #[track_caller]
    pub fn worker<C, F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        store: crate::StoreHandle,
        work: F,
    ) -> crate::WorkerPart<'_, C>
    where
        C: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
        F: FnMut(crate::Worker<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::WorkerPart::new(self, name.into(), Location::caller(), store, work)
    }

    /// Runs blocking code as a part of the service, on the runtime's pool for it.
    ///
    /// It cannot be cancelled; give it a look at [`Stop::is_requested`] now and then. What does not end by
    /// the deadline is abandoned and named.
    #[track_caller]
    pub fn blocking<F, T>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        code: F,
    ) -> BlockingPart<'_>
    where
        F: FnOnce(Stop) -> T + Send + 'static,
        T: Ending,
    {
        BlockingPart::new(self, name.into(), Location::caller(), code)
    }

    /// Opens the admin port: `/livez`, `/readyz`, `/health`, `/metrics`, `/plan`, `/report`. A port alone means
    /// 127.0.0.1; `"unix:/run/orders.admin"` is possible too.
    ///
    /// Make it the first line of `setup`: it answers from then on, through the whole stop, to the very end.
    ///
    /// | route | answers |
    /// |---|---|
    /// | `/livez` | 200 as long as the runtime does, also while stopping |
    /// | `/readyz` | 200 once `setup` has returned and every server listens, while every [check](App::check) passes; 503 from the first moment of a stop |
    /// | `/health` | both as JSON, with every part's state and every check's answer; its status is that of `/readyz` |
    /// | `/metrics` | Prometheus text: the program's metrics through the `metrics` facade, and the service's own |
    /// | `/plan` | [`App::plan`]; as JSON if asked with `Accept: application/json` |
    /// | `/report` | the report so far, as JSON |
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// # struct Pool; impl Pool { async fn ping(&self) -> std::io::Result<()> { Ok(()) } }
    /// # let pool = std::sync::Arc::new(Pool);
    /// let admin = app.admin("127.0.0.1:0").await?;
    /// println!("admin on {:?}", admin.local_addr());
    /// app.check("db", move || {
    ///     let pool = pool.clone();
    ///     async move { pool.ping().await }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "admin")]
    #[track_caller]
    pub fn admin(&mut self, address: impl AsRef<str>) -> crate::Admin<'_> {
        crate::Admin::new(self, address.as_ref(), Location::caller())
    }

    /// The routes of the admin port for a router of your own, for those who have one port.
    #[cfg(feature = "admin")]
    #[must_use = "routes answer once they are mounted"]
    pub fn admin_routes(&self) -> crate::AdminRoutes {
        crate::AdminRoutes::new(Arc::clone(&self.core), Arc::clone(&self.ledger))
    }

    /// Adds a check that readiness depends on. Its name is for the checks alone: a resource may have the same.
    ///
    /// It is asked when somebody asks for readiness, by one at a time, and its answer is good for a second. One
    /// that fails, panics or does not answer within a second makes `/readyz` answer 503, and `/health` says why.
    /// Liveness is not touched: starting the process again seldom mends a database.
    ///
    /// When the stop is announced, checks are not asked any more, and what they hold is dropped.
    #[cfg(feature = "admin")]
    #[track_caller]
    pub fn check<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: F,
    ) -> crate::CheckPart<'_>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::CheckPart::new(self, name.into(), Location::caller(), check)
    }

    /// Runs when stopping begins, before the drain: tell the load balancer, the service registry.
    #[track_caller]
    pub fn on_shutdown<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        hook: F,
    ) -> HookPart<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookPart::new(
            self,
            PartKind::ShutdownHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Runs after the drain, while the resources are still open. May start work; the release waits for it.
    #[track_caller]
    pub fn on_cleanup<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        hook: F,
    ) -> HookPart<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookPart::new(
            self,
            PartKind::CleanupHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Runs at the very end, when everything is closed: flush telemetry here.
    #[track_caller]
    pub fn on_exit<F, Fut>(&mut self, name: impl Into<Cow<'static, str>>, hook: F) -> HookPart<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookPart::new(
            self,
            PartKind::ExitHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Loads a value, and loads it anew at every SIGHUP. Await it; the value comes back as a [`Watched`](crate::Watched), which parts
    /// read, check and apply.
    ///
    /// A reload is a transaction over everything that can be reloaded, TLS certificates included: all is loaded,
    /// then [checked](crate::Watched::check), then [applied](crate::Watched::apply). One refusal, and all is as it was before; log,
    /// status and admin port say who refused and why. A service without anything to reload stops at SIGHUP.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let motd = app.reload("motd", || async { std::fs::read_to_string("/etc/motd").or_else(|_| Ok::<_, std::io::Error>(String::new())) }).await?;
    /// println!("{}", motd.get());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload<F, Fut, T, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        load: F,
    ) -> crate::ReloadPart<'_, F, T>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
        T: Send + Sync + 'static,
    {
        crate::ReloadPart::new(&self.core, name.into(), load)
    }

    /// Binds a signal to a handler of your own, which is then called instead of what the signal does otherwise:
    /// SIGHUP and SIGUSR1 can be bound anew, SIGTERM and SIGINT cannot.
    ///
    /// Each signal that arrives is one call, as tracked work that a stop waits for; signals of one kind that arrive
    /// together are one, as always on Unix. An error or a panic is logged and stops nothing. In a scope this needs
    /// [`Scope::signals`](crate::Scope::signals). A signal that the parent process set to be ignored stays ignored.
    ///
    /// ```
    /// # async fn rotate() -> std::io::Result<()> { Ok(()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.on_signal(adieu::Signal::User2, || rotate()); // reopen the log file
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn on_signal<F, Fut>(&mut self, signal: Signal, handler: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        if let Err(error) = hear::bind(&self.core, signal, Location::caller(), handler) {
            self.misuse(error);
        }
    }

    /// A [`Stop`] for use in `setup` itself, or to hand to something that is not a task.
    #[must_use]
    pub fn stop(&self) -> Stop {
        Stop::new(Arc::clone(&self.core))
    }

    /// Asks the service to stop, from anywhere.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle {
            core: Arc::clone(&self.core),
        }
    }

    /// Who will stop in which phase with what budget, as registered so far.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.core.plan()
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("service", &self.core.name)
            .finish_non_exhaustive()
    }
}

/// Asks a service to stop. Cheap to clone; does nothing after the end.
#[derive(Clone)]
pub struct ShutdownHandle {
    core: Arc<Core>,
}

impl ShutdownHandle {
    pub(crate) const fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Begins the stop. `why` is the cause in log and report. Only the first request counts.
    pub fn stop(&self, why: impl Into<Arc<str>>) {
        self.core.request_stop(Cause::Requested(why.into()));
    }
}

impl fmt::Debug for ShutdownHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownHandle")
            .field("service", &self.core.name)
            .finish_non_exhaustive()
    }
}
