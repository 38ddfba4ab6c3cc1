//! Where work comes in: sockets, long polls and queues, as `setup` registers them.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;

use crate::app::App;
use crate::component::{ConsumerPart, Ending};
#[cfg(any(feature = "http", feature = "state"))]
use crate::error::BoxError;

impl App {
    /// Polls a source for ever: `poll` is given the offset to go on from and brings what came after it, each update
    /// with the offset that follows it; `handle` is called with one update after the other.
    ///
    /// The offset is saved after each update, before the next one is begun. On a stop the poll is given up at once,
    /// and what was fetched is handled to the end, within the drain; no update is lost, and none is handled
    /// twice. After a kill, only the update that was in hand is handled again.
    ///
    /// A poll that fails is tried again with a [`Backoff`](crate::Backoff); [`Later`](crate::Later) says when, and
    /// [`Never`](crate::Never) ends the service. See [`PollerPart`](crate::PollerPart) for updates that fail.
    ///
    /// ```
    /// # async fn get_updates(_after: i64) -> std::io::Result<Vec<(i64, String)>> { Ok(vec![]) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// # let folder = tempfile::tempdir()?;
    /// let store = app.store(adieu::FileStore::open(folder.path())).await?;
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
        offset: crate::State<O>,
        poll: P,
        handle: H,
    ) -> crate::PollerPart<'_>
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
        crate::PollerPart::new(self, name.into(), Location::caller(), offset, poll, handle)
    }

    /// Takes jobs from a queue, several at a time, and settles each: done, tried again later, or a dead letter.
    ///
    /// On a stop fetching ends at once, jobs in hand finish and are acknowledged, within the drain; what cannot
    /// finish, or was only fetched, is given back, so that another replica has it at once. See
    /// [`Job`](crate::queue::Job) for how a handler says how it went, and [`ConsumerPart`] for concurrency and
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
    ) -> ConsumerPart<'_>
    where
        Q: crate::queue::Queue,
        H: Fn(crate::queue::Job) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        ConsumerPart::new(self, name.into(), Location::caller(), queue, handler)
    }

    /// Binds a socket: `"0.0.0.0:8080"`, `"localhost:0"` or `"unix:/run/orders.sock"`. Await it, then give it to
    /// `app.http` or [`App::tcp`], which accept once `setup` has returned.
    ///
    /// In a [`service`](crate::service()), a listener of this name that came with the process is taken instead: from
    /// systemd (a socket unit with `FileDescriptorName=` or simply of this name), from `adieu run`, or from the
    /// process that served before. If it came without a name, its address decides. The report says where it came
    /// from, and a warning if it is not on the address asked for. Such a listener is not closed for good when the
    /// service stops: what waits in its queue is served by whoever holds it next.
    #[cfg(feature = "net")]
    #[track_caller]
    pub fn listen(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        address: impl Into<String>,
    ) -> crate::Listen {
        let core = std::sync::Arc::clone(&self.core);
        crate::Listen::new(core, name.into(), address.into(), Location::caller())
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
    pub fn tcp<F, Fut>(&mut self, listener: crate::Listener, handler: F) -> crate::TcpPart<'_>
    where
        F: Fn(crate::Conn) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        crate::TcpPart::new(self, listener, handler)
    }

    /// Serves HTTP/1.1 and HTTP/2 with an axum `Router` or any other tower service.
    ///
    /// A handler finds the [`Stop`](crate::Stop) among the request's extensions; with the feature `axum`, the extractor
    /// `Stopping` gives it.
    #[cfg(feature = "http")]
    pub fn http<S, B>(&mut self, listener: crate::Listener, service: S) -> crate::HttpPart<'_>
    where
        S: tower_service::Service<http::Request<crate::Upload>, Response = http::Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        crate::HttpPart::new(self, listener, service)
    }
}
