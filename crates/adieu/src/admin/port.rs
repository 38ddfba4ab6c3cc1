//! The port itself: open from its line in `setup` to the very end, with little that a peer can hold open.

use std::fmt;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::Instant;
use tower_service::Service as _;

use super::connections::{AcceptedConn, AdminConns};
use super::hosts::Hosts;
use super::routes::AdminRoutes;
use crate::error::Error;
use crate::net::{DESCRIPTOR_WAIT, DescriptorReserve, Listen, Listening, ReservedFds, SocketOwner};
use crate::report::Notice;
use crate::runtime::registrar::Registrar;
use crate::runtime::shared::ServiceShared;
use crate::util::latch::Latch;

/// From the accept to the end of the request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// From the accept to the last byte of the answer; longer than a check may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest head.
const MAX_HEAD_SIZE: usize = 8 * 1_024;

/// An admin port about to open. Await it to open it.
///
/// It answers from that moment on, through the whole stop, to the very end; a stop does not wait for it.
#[must_use = "an admin port opens when it is awaited"]
pub struct Admin<'app> {
    app: &'app mut Registrar,
    address: String,
    place: &'static Location<'static>,
    routes: AdminRoutes,
    hosts: Vec<String>,
    exposed: bool,
    collects_metrics: bool,
}

impl<'app> Admin<'app> {
    pub(crate) fn new(
        app: &'app mut Registrar,
        address: &str,
        place: &'static Location<'static>,
    ) -> Self {
        // A port alone means this machine alone.
        let port = address.strip_prefix(':').unwrap_or(address);
        let address = match port.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => address.to_owned(),
        };
        let routes = AdminRoutes::new(Arc::clone(&app.core), Arc::clone(&app.ledger));
        Self {
            app,
            address,
            place,
            routes,
            hosts: Vec::new(),
            exposed: false,
            collects_metrics: false,
        }
    }

    /// It is meant to be reached from other machines, as in a pod whose probes come from its node: no warning.
    ///
    /// There is no authentication. A client that can reach the port reads names, states, error texts and metrics.
    pub const fn exposed(mut self) -> Self {
        self.exposed = true;
        self
    }

    /// A name that clients know this port by, beside `localhost` and addresses. A request for any other host gets 421,
    /// unless it is for `/livez` or `/readyz`: a web page could have its own name lead here, and read the answer. A port
    /// that other machines can reach answers to names without a dot, and to those that end in `.svc`, `.local` and
    /// `.internal`, as well. The environment variable `ADIEU_ADMIN_HOSTS` adds names, separated by commas.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Collects the program's own metrics, those of the [`metrics`](https://docs.rs/metrics) facade, and gives them on
    /// `/metrics`. It installs the recorder of the process, of which there is one: if the program has installed another,
    /// opening the port is an error, and [`metrics_from`](Self::metrics_from) is for there.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.admin("127.0.0.1:0").collect_metrics().await?;
    /// // metrics::counter!("orders_total").increment(1);
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    pub const fn collect_metrics(mut self) -> Self {
        self.collects_metrics = true;
        self
    }

    /// More Prometheus text for `/metrics`: for a program that has a recorder of its own.
    pub fn metrics_from(mut self, text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.routes = self.routes.metrics_from(text);
        self
    }

    /// Dropped while a name is resolved, it leaves nothing behind; afterwards there is no await.
    async fn open(self) -> Result<AdminPort, Error> {
        let core = Arc::clone(&self.app.core);
        let address = self.address.clone();
        let listener = Listen::new(Arc::clone(&core), "admin".into(), self.address, self.place)
            .for_admin()
            .await?;
        let local = listener.local_addr();
        let listening = listener.open().await?;
        if let Some(address) = local.filter(|local| !local.ip().is_loopback() && !self.exposed) {
            core.note(Notice::AdminExposed { address });
        }
        let routes = match self.collects_metrics {
            true => self.routes.collect_metrics()?,
            false => self.routes,
        };
        let routes = routes.at(Hosts::new(&address, local, self.hosts));
        let shown = local.map_or(address, |local| local.to_string());
        let admin_listener = AdminListener {
            listening,
            // Before any server accepts: afterwards there may be nothing to keep in reserve.
            reserve: ReservedFds::new(),
            _closed: ClosedLatch(core.admin().opened(shown, self.place, core.now())),
        };
        core.runtime
            .clone()
            .spawn(serve(core, admin_listener, routes));
        Ok(AdminPort { local })
    }
}

impl<'app> IntoFuture for Admin<'app> {
    type Output = Result<AdminPort, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'app>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// An admin port that answers.
#[derive(Clone, Debug)]
pub struct AdminPort {
    local: Option<SocketAddr>,
}

impl AdminPort {
    /// The address, with the port that the system has chosen if 0 was asked for. `None` for a Unix socket.
    #[must_use]
    pub const fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }
}

impl fmt::Debug for Admin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The socket. Fields are dropped in their order: it is closed first, and then said to be.
struct AdminListener {
    listening: Listening,
    /// A probe would take silence for the end of the service, just when there is much to do.
    reserve: ReservedFds,
    _closed: ClosedLatch,
}

struct ClosedLatch(Arc<Latch>);

impl Drop for ClosedLatch {
    fn drop(&mut self) {
        self.0.open();
    }
}

async fn serve(core: Arc<ServiceShared>, admin_listener: AdminListener, routes: AdminRoutes) {
    let mut connections = AdminConns::default();
    // During a hand-off the port is first the old process's alone, and then the new one's alone.
    let mut is_ours = !admin_listener.listening.registration.is_handed_over();
    let mut is_passed_on = false;
    let reserve = &admin_listener.reserve;
    // While even the reserve is used up: a connection that ends gives one back, and others may.
    let mut again_at = None;
    loop {
        reserve.restock();
        // Every branch is cancel-safe: a connection is either handed out or still in the queue, the rest forgets
        // nothing. What is open at the end is cut: the process is about to go.
        tokio::select! {
            biased;
            () = core.ended() => return,
            _ = connections.all.join_next(), if !connections.all.is_empty() => again_at = None,
            () = sleep_until(again_at) => again_at = None,
            () = core.running.wait(), if !is_ours && !is_passed_on => is_ours = true,
            () = core.listeners().handed_over.wait(), if !is_passed_on => {
                is_passed_on = true;
                is_ours = !matches!(admin_listener.listening.registration.owner(), SocketOwner::NewProcess(_));
            }
            accepted = admin_listener.listening.accept(reserve), if is_ours && again_at.is_none() => {
                match accepted {
                    Ok(socket) => connections.admit(&core.runtime, socket, reserve, |accepted| serve_connection(accepted, routes.clone())),
                    Err(_) => {
                        connections.make_room();
                        again_at = Some(Instant::now() + DESCRIPTOR_WAIT);
                    }
                }
            }
        }
    }
}

/// Completes at this instant; without one never.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// One request, one answer: a connection that may stay open is one that must be looked after.
///
/// Dropped half-way, the connection is closed, and its descriptor kept if the reserve lacks one.
async fn serve_connection(accepted: AcceptedConn, routes: AdminRoutes) {
    // Dropped last: nothing else holds the socket by then.
    let end = accepted.end;
    let asked = end.asked();
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        asked();
        let mut routes = routes.clone();
        routes.call(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_SIZE)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(accepted.io), service);
    // A client that gives up or stalls loses its response, and no other client anything.
    let _ = tokio::time::timeout(RESPONSE_TIMEOUT, connection).await;
}
