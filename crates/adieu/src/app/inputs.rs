//! Where work comes in: sockets, long polls and queues, as `setup` registers them.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;

use crate::app::App;
use crate::component::Ending;
#[cfg(feature = "state")]
use crate::error::BoxError;
use crate::queue::ConsumerBuilder;

impl App {
    /// Polls a source forever: `poll` is given the offset to go on from and brings what came after it, each update
    /// with the offset that follows it; `handle` is called with one update after the other.
    ///
    /// The offset is saved after each update, before the next one is begun. On a stop the poll is given up at once,
    /// and what was fetched is handled to the end, within the drain; no update is lost, and none is handled
    /// twice. After a kill, only the update that was being handled is handled again.
    ///
    /// A poll that fails is tried again with a [`Backoff`](crate::retry::Backoff); [`RetryAfter`](crate::retry::RetryAfter) says when, and
    /// [`Permanent`](crate::retry::Permanent) ends the service. See [`PollerBuilder`](crate::state::PollerBuilder) for updates that fail.
    ///
    /// ```
    /// # async fn get_updates(_after: i64) -> std::io::Result<Vec<(i64, String)>> { Ok(vec![]) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// # let folder = tempfile::tempdir()?;
    /// let store = app.store(adieu::state::FileStore::open(folder.path())).await?;
    /// app.poller(
    ///     "updates",
    ///     store.state("offset"),
    ///     |offset: Option<i64>| get_updates(offset.unwrap_or(0)),
    ///     |text: String| async move { println!("{text}") },
    /// );
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[cfg(feature = "state")]
    #[track_caller]
    pub fn poller<O, U, P, PFut, E, H, HFut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        offset: crate::state::State<O>,
        poll: P,
        handle: H,
    ) -> crate::state::PollerBuilder<'_>
    where
        O: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
        U: Clone + Send + Sync + 'static,
        P: Fn(Option<O>) -> PFut + Send + Sync + 'static,
        PFut: Future<Output = Result<Vec<(O, U)>, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
        H: Fn(U) -> HFut + Send + Sync + 'static,
        HFut: Future + Send + 'static,
        HFut::Output: Ending,
    {
        crate::state::PollerBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            offset,
            poll,
            handle,
        )
    }

    /// Takes jobs from a queue, several at a time, and settles each: done, tried again later, or a dead letter.
    ///
    /// On a stop fetching ends at once, jobs in flight finish and are acknowledged, within the drain; what cannot
    /// finish, or was only fetched, is given back, so that another replica has it at once. See
    /// [`Job`](crate::queue::Job) for how a handler says how it went, and [`ConsumerBuilder`] for concurrency and
    /// limits.
    ///
    /// ```
    /// use adieu::queue::{Job, MemoryQueue};
    /// # use std::time::Duration;
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let orders = MemoryQueue::new(Duration::from_secs(30)); // or PostgresQueue, RedisQueue, NatsQueue
    /// orders.push("tea");
    /// # let done = app.shutdown_handle();
    /// app.consume("orders", orders, move |job: Job| {
    /// # let done = done.clone();
    ///     async move {
    ///         println!("order: {}", job.text());
    /// #       done.stop("seen");
    ///         Ok::<_, std::io::Error>(())
    ///     }
    /// })
    /// .concurrency(8);
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn consume<Q, H, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        queue: Q,
        handler: H,
    ) -> ConsumerBuilder<'_>
    where
        Q: crate::queue::Queue,
        H: Fn(crate::queue::Job) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        ConsumerBuilder::new(
            &mut self.registrar,
            name.into(),
            Location::caller(),
            queue,
            handler,
        )
    }

    /// Binds a socket: `"0.0.0.0:8080"`, `"localhost:0"` or `"unix:/run/orders.sock"`. Await it, then give it to
    /// `app.http` or [`App::tcp`], which accept once `setup` has returned.
    ///
    /// In a [`service`](crate::service()), a listener of this name that came with the process is taken instead: from
    /// systemd (a socket unit with `FileDescriptorName=` or simply of this name), from `adieu run`, or from the
    /// process that served before. If it came without a name, its address decides. The report says where it came
    /// from, and a warning if it is not on the address asked for. Such a listener is not closed for good when the
    /// service stops: connections in its accept queue are served by the process that holds it next.
    #[cfg(feature = "net")]
    #[track_caller]
    pub fn listen(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        address: impl Into<String>,
    ) -> crate::net::Listen {
        let core = std::sync::Arc::clone(&self.registrar.core);
        crate::net::Listen::new(core, name.into(), address.into(), Location::caller())
    }

    /// Takes a listener that the program has bound by itself: a `TcpListener` or `UnixListener` of tokio or of the standard
    /// library. Clients that come before `setup` has returned wait in its queue.
    ///
    /// A socket that another process holds as well, as one from systemd, is better left to [`listen`](Self::listen): that
    /// one knows, and does not close it for good.
    ///
    /// # Errors
    /// If it is not a listening stream socket.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let bound = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let listener = app.listener("echo", bound)?;
    /// # app.tcp(listener, |_conn| async {});
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "net")]
    #[track_caller]
    pub fn listener(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        bound: impl Into<crate::net::BoundListener>,
    ) -> Result<crate::net::Listener, crate::Error> {
        crate::net::Listener::adopt(
            &self.registrar.core,
            name.into(),
            bound.into(),
            Location::caller(),
        )
    }

    /// Serves connections: `handler` is called with each, and ends when it is through with it.
    ///
    /// ```
    /// # use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let echo = app.listen("echo", "127.0.0.1:0").await?;
    /// app.tcp(echo, |conn| async move {
    ///     let mut conn = BufReader::new(conn);
    ///     let mut line = String::new();
    ///     while conn.read_line(&mut line).await? > 0 && line.ends_with('\n') {
    ///         conn.write_all(line.as_bytes()).await?;
    ///         line.clear();
    ///     }
    ///     std::io::Result::Ok(())
    /// })
    /// .goodbye("Goodbye!\r\n");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "net")]
    pub fn tcp<F, Fut>(
        &mut self,
        listener: crate::net::Listener,
        handler: F,
    ) -> crate::net::TcpBuilder<'_>
    where
        F: Fn(crate::net::Conn) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::net::TcpBuilder::new(&mut self.registrar, listener, handler)
    }

    /// Serves HTTP/1.1, and with the feature `http2` HTTP/2, with an axum `Router`, any other tower service, or what makes a service for each
    /// connection; see [`HttpService`](crate::http::HttpService).
    ///
    /// Every request carries its [`Peer`](crate::http::Peer), and handlers find the [`Stop`](crate::Stop) of the service with
    /// [`Stopping`](crate::http::Stopping). With the feature `axum` both are extractors, and `ConnectInfo<SocketAddr>` is
    /// there, too.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, routing::get};
    ///
    /// async fn setup(app: &mut adieu::App) -> adieu::Result {
    ///     let listener = app.listen("web", "127.0.0.1:0").await?;
    ///     let router = Router::new().route("/", get(async |peer: adieu::http::Peer| format!("{peer:?}")));
    ///     app.http(listener, router);
    ///     Ok(())
    /// }
    /// # }
    /// ```
    #[cfg(feature = "http")]
    pub fn http<S, Kind>(
        &mut self,
        listener: crate::net::Listener,
        service: S,
    ) -> crate::http::HttpBuilder<'_>
    where
        S: crate::http::HttpService<Kind>,
    {
        crate::http::HttpBuilder::new(&mut self.registrar, listener, service)
    }
}
