//! What `setup` holds: registers the parts of the service.

pub(crate) mod components;
mod extensions;
mod in_place;
mod inputs;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "schedule")]
mod schedules;
pub(crate) mod scope;
#[cfg(feature = "http")]
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod setup;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use adieu_lifecycle::Cause;

use crate::app::components::Components;
use crate::component::{
    self, BlockingBuilder, Component, ComponentHandle, Ending, HookBuilder, Resource, RetryOpen,
    TaskBuilder,
};
use crate::error::{BoxError, Error};
use crate::report::{ComponentKind, ReportBuilder};
use crate::runtime::plan::Plan;
use crate::runtime::registrar::Registrar;
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::Restart;
use crate::signal::{self, Signal};
use crate::util::printable;

/// The service under construction. Program order is start order; the stop goes the other way.
pub struct App {
    registrar: Registrar,
}

impl App {
    pub(crate) const fn new(core: Arc<ServiceShared>, ledger: Arc<Mutex<ReportBuilder>>) -> Self {
        Self {
            registrar: Registrar::new(core, ledger),
        }
    }

    pub(crate) fn take_misuse(&mut self) -> Option<Error> {
        self.registrar.take_misuse()
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
    ///
    /// Resources that do not need each other can open at the same time, with `tokio::try_join!`. They still close one after the
    /// other, the last of them first.
    ///
    /// ```
    /// # async fn connect(_: &str) -> std::io::Result<()> { Ok(()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let (db, cache) = tokio::try_join!(
    ///     app.resource("postgres", connect("…")),
    ///     app.resource("redis", connect("…")),
    /// )?;
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn resource<F, T, E>(
        &self,
        name: impl Into<Cow<'static, str>>,
        open: F,
    ) -> Resource<'_, F, T>
    where
        F: Future<Output = Result<T, E>>,
        E: Into<BoxError>,
    {
        component::resource(&self.registrar.core, name.into(), Location::caller(), open)
    }

    /// Opens a resource with a function that can be called again: [`open_retry`](Resource::open_retry) does so until it is
    /// open. Without that, it is the same as [`resource`](Self::resource).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use adieu::retry::Backoff;
    /// # struct Pool; impl Pool { async fn connect(_: &str) -> std::io::Result<std::sync::Arc<Self>> { Ok(Pool.into()) } async fn close(&self) {} }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let db = app
    ///     .resource_with("postgres", || Pool::connect("…"))
    ///     .open_retry(Backoff::default()) // the database may not be there yet
    ///     .open_timeout(Duration::from_secs(60))
    ///     .stop(|db| async move { db.close().await })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn resource_with<O, Fut, T, E>(
        &self,
        name: impl Into<Cow<'static, str>>,
        open: O,
    ) -> Resource<'_, RetryOpen<O, Fut>, T>
    where
        O: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<BoxError>,
    {
        let (place, open) = (Location::caller(), RetryOpen::new(open));
        component::resource(&self.registrar.core, name.into(), place, open)
    }

    /// Opens a store for what must outlive the process: cursors, counters, the last run of a job. Await it; the
    /// handle gives typed access to each piece of state.
    ///
    /// It is a resource named `store`: open it before the tasks that save into it, and it is closed after them.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use adieu::state::FileStore;
    /// use adieu::App;
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
    pub fn store<O, S, E>(&self, open: O) -> crate::state::StoreBuilder<'_, O>
    where
        O: std::future::IntoFuture<Output = Result<S, E>>,
        S: crate::state::Store,
        E: Into<BoxError>,
    {
        crate::state::StoreBuilder::new(&self.registrar.core, Location::caller(), open)
    }

    /// Starts a task. It is given a [`Stop`] and should end soon after the stop is requested.
    ///
    /// An error or a panic stops the service, unless [`TaskBuilder::report_only`] says otherwise; see
    /// [`App::restarting`] for a task that is started again. When all tasks have ended, the service ends too.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// use std::time::Duration;
    ///
    /// app.task("heartbeat", |stop| async move {
    ///     while stop.sleep(Duration::from_secs(10)).await {
    ///         println!("still here");
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn task<F, Fut>(&mut self, name: impl Into<Cow<'static, str>>, code: F) -> TaskBuilder<'_>
    where
        F: FnOnce(Stop) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        TaskBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            component::once(code),
        )
    }

    /// Registers a task that runs already, started with `tokio::spawn` or by a library. It is a part of the service from
    /// here on: an error or a panic of it stops the service, the stop waits for it, and the report names it.
    ///
    /// It is not told of the stop, so give it a [`Stop`] of [`App::stop`] if it should end before the drain does. At the
    /// end of the drain it is aborted, and resources close when it is gone. [`Stop::register_task`] is for tasks that
    /// are started while the service runs.
    ///
    /// ```
    /// # async fn poll_updates() {}
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let updates = tokio::spawn(poll_updates());
    /// app.register_task("updates", updates);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn register_task<T>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        task: tokio::task::JoinHandle<T>,
    ) -> TaskBuilder<'_>
    where
        T: Ending + Send + 'static,
    {
        TaskBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            component::running(task),
        )
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
    ) -> TaskBuilder<'_>
    where
        F: FnMut(Stop) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        TaskBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            component::again(restart, code),
        )
    }

    /// Starts a worker: work in steps, with a cursor that survives. Its state is kept in the store under the worker's
    /// name.
    ///
    /// It is stopped at [`Worker::until_stop`](crate::state::Worker::until_stop) only: a step that was begun is finished, and
    /// what was reported by [`Worker::checkpoint`](crate::state::Worker::checkpoint) is saved before it ends. After a
    /// crash it goes on from the last checkpoint that was saved. A panic saves nothing more.
    ///
    /// ```
    /// use adieu::state::{FileStore, Worker};
    /// use adieu::App;
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
        store: crate::state::StoreHandle,
        work: F,
    ) -> crate::state::WorkerBuilder<'_, C>
    where
        C: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
        F: FnMut(crate::state::Worker<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::state::WorkerBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            store,
            work,
        )
    }

    /// Runs blocking code as a part of the service, on the runtime's pool for it.
    ///
    /// It cannot be cancelled; give it a look at [`Stop::is_requested`] now and then. What does not end by
    /// the deadline is abandoned and named.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.blocking("index", |stop| {
    ///     let mut documents = 1..=1_000_000_u32;
    ///     while !stop.is_requested() && documents.next().is_some() {
    ///         // one document, without an await
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn blocking<F, T>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        code: F,
    ) -> BlockingBuilder<'_>
    where
        F: FnOnce(Stop) -> T + Send + 'static,
        T: Ending,
    {
        BlockingBuilder::new(&mut self.registrar, name.into(), Location::caller(), code)
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
    pub fn admin(&mut self, address: impl AsRef<str>) -> crate::admin::Admin<'_> {
        crate::admin::Admin::new(&mut self.registrar, address.as_ref(), Location::caller())
    }

    /// The routes of the admin port for a router of your own, for those who have one port.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let router: axum::Router = axum::Router::new().route("/", axum::routing::get(async || "hello"));
    /// let router = router.fallback_service(app.admin_routes());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "admin")]
    #[must_use = "routes answer once they are mounted"]
    pub fn admin_routes(&self) -> crate::admin::AdminRoutes {
        crate::admin::AdminRoutes::new(
            Arc::clone(&self.registrar.core),
            Arc::clone(&self.registrar.ledger),
        )
    }

    /// Adds a check that readiness depends on. Its name is for the checks alone: a resource may have the same.
    ///
    /// It runs when a request asks for readiness, once at a time, and its result is good for a second. One
    /// that fails, panics or does not answer within a second makes `/readyz` answer 503, and `/health` says why.
    /// Liveness is not touched: starting the process again seldom mends a database.
    ///
    /// When the stop is announced, checks are not asked any more, and what they hold is dropped.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// use tokio::net::TcpStream;
    ///
    /// app.check("postgres", || async {
    ///     TcpStream::connect("127.0.0.1:5432").await.map(drop)
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[cfg(feature = "admin")]
    #[track_caller]
    pub fn check<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: F,
    ) -> crate::admin::CheckBuilder<'_>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::admin::CheckBuilder::new(&mut self.registrar, name.into(), Location::caller(), check)
    }

    /// Runs when stopping begins, before the drain: tell the load balancer, the service registry.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.on_shutdown("registry", || async {
    ///     println!("taken out of the service registry");
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn on_shutdown<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        hook: F,
    ) -> HookBuilder<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookBuilder::new(
            &mut self.registrar,
            ComponentKind::ShutdownHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Runs after the drain, while the resources are still open. May start work; the release waits for it.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.on_cleanup("flush", || async {
    ///     println!("the last batch is written, and the database is still open");
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn on_cleanup<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        hook: F,
    ) -> HookBuilder<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookBuilder::new(
            &mut self.registrar,
            ComponentKind::CleanupHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Runs at the very end, when everything is closed: flush telemetry here.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.on_exit("telemetry", || async {
    ///     println!("the last spans are exported");
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn on_exit<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        hook: F,
    ) -> HookBuilder<'_>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        HookBuilder::new(
            &mut self.registrar,
            ComponentKind::ExitHook,
            name.into(),
            Location::caller(),
            hook,
        )
    }

    /// Loads a value, and loads it anew at every SIGHUP. Await it; the value comes back as a [`Reloadable`](crate::reload::Reloadable), which parts
    /// read, check and apply.
    ///
    /// A reload is a transaction over everything that can be reloaded, TLS certificates included: all is loaded,
    /// then [checked](crate::reload::Reloadable::check), then [applied](crate::reload::Reloadable::apply). One refusal, and all is as it was before; log,
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
    ) -> crate::reload::ReloadBuilder<'_, F, T>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
        T: Send + Sync + 'static,
    {
        crate::reload::ReloadBuilder::new(&self.registrar.core, name.into(), load)
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
    /// app.on_signal(adieu::signal::Signal::User2, || rotate()); // reopen the log file
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
        if let Err(error) = signal::bind(&self.registrar.core, signal, Location::caller(), handler)
        {
            self.registrar.misuse(error);
        }
    }

    /// A [`Stop`] for use in `setup` itself, or to hand to something that is not a task.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let stop = app.stop();
    /// std::thread::spawn(move || while !stop.is_requested() { std::thread::yield_now() });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn stop(&self) -> Stop {
        Stop::new(Arc::clone(&self.registrar.core))
    }

    /// Asks the service to stop, from anywhere.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let service = app.shutdown_handle();
    /// app.task("import", |_stop| async move {
    ///     service.stop("everything is imported");
    /// });
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle {
            core: Arc::clone(&self.registrar.core),
        }
    }

    /// Starts a component of a kind of your own. Await it: what follows in `setup` begins when it has started.
    ///
    /// If the service is asked to stop meanwhile, its start is dropped.
    #[track_caller]
    pub fn start_component<C: Component>(
        &self,
        name: impl Into<Cow<'static, str>>,
        component: C,
    ) -> impl Future<Output = Result<ComponentHandle, Error>> + Send {
        let (name, place) = (name.into(), Location::caller());
        component::start(&self.registrar.core, name, place, component)
    }

    /// The handle of the component of this name, if it is registered: of a server, for instance.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.task("importer", |stop| async move { stop.requested().await });
    /// let importer = app.component("importer");
    /// # assert_eq!(importer.map(|it| it.kind().name()), Some("task"));
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn component(&self, name: &str) -> Option<ComponentHandle> {
        ComponentHandle::find(&self.registrar.core, name)
    }

    /// Finds components, and adds more, while the service runs.
    #[must_use]
    pub fn components(&self) -> Components {
        Components::new(
            Arc::clone(&self.registrar.core),
            Arc::clone(&self.registrar.ledger),
        )
    }

    /// Who will stop in which phase with what budget, as registered so far.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.task("importer", |stop| async move { stop.requested().await });
    /// println!("{}", app.plan());
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.registrar.core.plan()
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("service", &self.registrar.core.name)
            .finish_non_exhaustive()
    }
}

/// Asks a service to stop. Cheap to clone; does nothing after the end.
#[derive(Clone)]
pub struct ShutdownHandle {
    core: Arc<ServiceShared>,
}

impl ShutdownHandle {
    pub(crate) const fn new(core: Arc<ServiceShared>) -> Self {
        Self { core }
    }

    /// Begins the stop. `why` is the cause in log and report. Only the first request counts.
    pub fn stop(&self, why: impl Into<Arc<str>>) {
        let why = printable::one_line(&why.into()).into_owned();
        let why = printable::bounded(why).into();
        self.core.request_stop(Cause::Requested(why));
    }
}

impl fmt::Debug for ShutdownHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownHandle")
            .field("service", &self.core.name)
            .finish_non_exhaustive()
    }
}
