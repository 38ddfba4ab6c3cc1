//! HTTP servers: hyper's protocols on our own sockets, so that every kind of connection ends well.

mod body;
mod converse;
mod desk;
mod enclosed;
mod facts;
mod frames;
mod heads;
mod limits;
mod line;
mod observed;
mod streams;
mod track;

use std::panic::Location;
use std::sync::Arc;

use bytes::Buf;
use http::{Request, Response};
use tower_service::Service;

use super::BoxFuture;
use super::task::launch;
use crate::app::App;
use crate::error::{BoxError, Error};
use crate::net::{Listener, Server, Wire};
use crate::report::PartKind;
use crate::stop::Stop;
use crate::supervise::{self, OnFailure};

pub use body::Upload;
pub use limits::Limits;

use desk::Desk;
pub(crate) use enclosed::Enclosure;
use facts::Facts;
use track::Stage;

/// An HTTP server about to start: it does at the end of the statement that makes it, and accepts once `setup`
/// has returned. Made by [`App::http`](crate::App::http).
pub struct HttpPart<'app> {
    app: &'app mut App,
    order: Option<(Listener, Start)>,
    limits: Limits,
}

/// Starts serving; made where the type of the service is still known.
type Start =
    Box<dyn FnOnce(Arc<Server>, Arc<Limits>, &Listener) -> Box<dyn Fn(Wire) + Send + Sync> + Send>;

impl<'app> HttpPart<'app> {
    pub(crate) fn new<S, B>(app: &'app mut App, listener: Listener, service: S) -> Self
    where
        S: Service<Request<Upload>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body + Send + 'static,
        B::Data: Buf + Send,
        B::Error: Into<BoxError>,
    {
        let start: Start = Box::new(move |server, limits, listener| {
            #[cfg(feature = "tls")]
            let tls = listener.tls.clone();
            #[cfg(feature = "tls")]
            let first = tls.as_ref().map_or(Stage::Detecting, |_| Stage::Handshake);
            #[cfg(not(feature = "tls"))]
            let (_, first) = (listener, Stage::Detecting);
            Box::new(move |wire: Wire| {
                let facts = Arc::new(Facts::new(
                    Arc::clone(&server),
                    wire.clone(),
                    Arc::clone(&limits),
                    first,
                ));
                let desk = Desk::new(service.clone(), Arc::clone(&facts));
                #[cfg(feature = "tls")]
                let work = converse::connection(Arc::clone(&facts), wire, tls.clone(), desk);
                #[cfg(not(feature = "tls"))]
                let work = converse::connection(Arc::clone(&facts), wire, desk);
                server.spawn(facts, work);
            })
        });
        Self {
            app,
            order: Some((listener, start)),
            limits: Limits::default(),
        }
    }

    /// Other limits than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn start(&mut self, listener: Listener, start: Start) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let place: &'static Location<'static> = listener.place;
        let id = core.register(listener.name.clone(), PartKind::Http, place, None)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &listener.tls {
            tls.reload_with(&core)?;
        }
        let limits = Arc::new(self.limits.clone());
        let server = Server::new(
            Arc::clone(&core),
            id,
            place,
            limits.connections,
            limits.linger,
        );
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

impl Drop for HttpPart<'_> {
    fn drop(&mut self) {
        if let Some((listener, start)) = self.order.take()
            && let Err(error) = self.start(listener, start)
        {
            self.app.misuse(error);
        }
    }
}
