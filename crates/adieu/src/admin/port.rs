//! The port itself: open from its line in `setup` to the very end, with little that a peer can hold open.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tower_service::Service as _;

use super::routes::AdminRoutes;
use crate::app::App;
use crate::core::Core;
use crate::error::Error;
use crate::gate::Gate;
use crate::net::{Keeper, Listen, Listening, Spare, Wire};
use crate::report::Notice;

/// Connections at a time. One more, and the oldest is cut: whoever hoards them locks nobody out.
const MOST: usize = 64;
/// From the accept to the end of the request's head.
const HEAD: Duration = Duration::from_secs(5);
/// From the accept to the last byte of the answer; longer than a check may take.
const WHOLE: Duration = Duration::from_secs(15);
/// The largest head.
const HEAD_SIZE: usize = 8 * 1_024;
/// After an accept that fails for want of descriptors.
const BREATH: Duration = Duration::from_millis(250);

/// An admin port about to open. Await it to open it.
///
/// It answers from that moment on, through the whole stop, to the very end; it is no work that a stop waits for.
#[must_use = "an admin port opens when it is awaited"]
pub struct Admin<'app> {
    app: &'app mut App,
    address: String,
    place: &'static Location<'static>,
    routes: AdminRoutes,
    exposed: bool,
}

impl<'app> Admin<'app> {
    pub(crate) fn new(
        app: &'app mut App,
        address: &str,
        place: &'static Location<'static>,
    ) -> Self {
        // A port alone means this machine alone.
        let port = address.strip_prefix(':').unwrap_or(address);
        let address = match port.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => address.to_owned(),
        };
        let routes = app.admin_routes();
        Self {
            app,
            address,
            place,
            routes,
            exposed: false,
        }
    }

    /// It is meant to be reached from other machines, as in a pod whose probes come from its node: no warning.
    ///
    /// Nobody is asked who they are. Who can reach the port reads names, states, error texts and metrics.
    pub const fn exposed(mut self) -> Self {
        self.exposed = true;
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
            .aside()
            .await?;
        let local = listener.local_addr();
        let listening = listener.open().await?;
        if let Some(address) = local.filter(|local| !local.ip().is_loopback() && !self.exposed) {
            core.note(Notice::AdminExposed { address });
        }
        let shown = local.map_or(address, |local| local.to_string());
        let door = Door {
            listening,
            _closed: OpenOnDrop(core.office.opened(shown, self.place, core.now())),
        };
        core.runtime
            .clone()
            .spawn(until_the_end(core, door, self.routes));
        Ok(AdminPort { local })
    }
}

impl<'app> IntoFuture for Admin<'app> {
    type Output = Result<AdminPort, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'app>>;

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
struct Door {
    listening: Listening,
    _closed: OpenOnDrop,
}

struct OpenOnDrop(Arc<Gate>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

async fn until_the_end(core: Arc<Core>, door: Door, routes: AdminRoutes) {
    let mut guests = Guests::default();
    // During a hand-off the port is first the old process's alone, and then the new one's alone.
    let mut is_ours = !door.listening.hold.is_handed_over();
    let mut is_passed_on = false;
    // Whoever looks after us would take silence for the end, just when there is much to do.
    let mut spare = Spare::new();
    // Without a descriptor nothing can be accepted, and the kernel says so even if nobody waits.
    let mut again_at = None;
    loop {
        spare.restock();
        // Every branch is cancel-safe: a connection is either handed out or still in the queue, the rest forgets
        // nothing. What is open at the end is cut: the process is about to go.
        tokio::select! {
            biased;
            () = core.ended() => return,
            _ = guests.all.join_next(), if !guests.all.is_empty() => again_at = None,
            () = reached(again_at) => again_at = None,
            () = core.running.pass(), if !is_ours && !is_passed_on => is_ours = true,
            () = core.estate.passed_on.pass(), if !is_passed_on => {
                is_passed_on = true;
                is_ours = !matches!(door.listening.hold.keeper(), Keeper::Successor(_));
            }
            accepted = door.listening.accept(), if is_ours && again_at.is_none() => match accepted {
                Ok(wire) => guests.welcome(&core, serve(wire, routes.clone())),
                Err(_) => match spare.take_in(&door.listening) {
                    Some(wire) => guests.welcome(&core, serve(wire, routes.clone())),
                    None => again_at = Some(Instant::now() + BREATH),
                },
            },
        }
    }
}

/// Completes at this instant; without one never.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Those connected, oldest first. Cut when dropped.
#[derive(Default)]
struct Guests {
    all: JoinSet<()>,
    oldest_first: VecDeque<AbortHandle>,
}

impl Guests {
    fn welcome(&mut self, core: &Core, serving: impl Future<Output = ()> + Send + 'static) {
        self.oldest_first.retain(|guest| !guest.is_finished());
        if self.oldest_first.len() >= MOST
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        let guest = self.all.spawn_on(serving, &core.runtime);
        self.oldest_first.push_back(guest);
    }
}

/// One request, one answer: a connection that may stay open is one that must be looked after.
async fn serve(wire: Wire, routes: AdminRoutes) {
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let mut routes = routes.clone();
        routes.call(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_SIZE)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(wire), service);
    // A client that gives up or stalls loses its answer, and nobody else anything.
    let _ = tokio::time::timeout(WHOLE, connection).await;
}
