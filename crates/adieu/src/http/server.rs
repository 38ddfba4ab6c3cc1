//! An HTTP server as a component: its builder, and the start of its accept loop.

use std::panic::Location;
use std::sync::Arc;

use super::limits::Limits;
use super::make_service::{HttpService, Serves, Start};
use crate::component::{BoxFuture, launch};
use crate::error::Error;
use crate::net::{DrainCounts, Kind, Listener, Server};
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure};

/// What moves to an HTTP server from the one of the old process.
const TAKES: &[Kind] = if cfg!(feature = "websocket") {
    &[Kind::Http1, Kind::EventStream, Kind::WebSocket]
} else if cfg!(feature = "axum") {
    &[Kind::Http1, Kind::EventStream]
} else {
    &[Kind::Http1]
};

/// An HTTP server about to start: it does at the end of the statement that makes it, and accepts once `setup`
/// has returned. Made by [`App::http`](crate::App::http).
pub struct HttpBuilder<'app> {
    app: &'app mut Registrar,
    order: Option<(Listener, Start)>,
    limits: Limits,
    counts: Arc<DrainCounts>,
}

impl<'app> HttpBuilder<'app> {
    pub(crate) fn new<S, Kind>(app: &'app mut Registrar, listener: Listener, service: S) -> Self
    where
        S: HttpService<Kind>,
    {
        Self::prepared(app, listener, service.serves())
    }

    pub(crate) fn prepared(app: &'app mut Registrar, listener: Listener, service: Serves) -> Self {
        Self {
            app,
            order: Some((listener, service.0)),
            limits: Limits::default(),
            counts: Arc::default(),
        }
    }

    /// Other limits than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts the stop there.
    pub(crate) fn counting(mut self, counts: Arc<DrainCounts>) -> Self {
        self.counts = counts;
        self
    }

    fn start(&mut self, listener: Listener, start: Start) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let place: &'static Location<'static> = listener.place;
        let id = core.register(listener.name.clone(), ComponentKind::Http, place, None)?;
        listener.handshake.reload_with(&core)?;
        let limits = Arc::new(self.limits.clone());
        let mut server = Server::new(
            Arc::clone(&core),
            id,
            place,
            limits.connections,
            limits.linger,
        );
        server.counts = Arc::clone(&self.counts);
        server.takes_moved = TAKES;
        server.moves =
            (!listener.handshake.is_tls()).then(|| (listener.name.to_string(), Kind::Http1));
        let server = Arc::new(server);
        let serve = start(Arc::clone(&server), limits, &listener);
        let stop = Stop::new(Arc::clone(&core));
        let run = Box::new(move |_| -> BoxFuture<crate::Result> {
            Box::pin(server.run(listener, serve))
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for HttpBuilder<'_> {
    fn drop(&mut self) {
        if let Some((listener, start)) = self.order.take()
            && let Err(error) = self.start(listener, start)
        {
            self.app.misuse(error);
        }
    }
}
