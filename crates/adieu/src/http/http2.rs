//! A connection of HTTP/2: the settings of the protocol, and its streams as tracked work.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use http::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tower_service::Service;

use super::body::{RequestBody, TunnelGuard};
use super::conn_state::ConnShared;
use super::connection::{ConnDriver, MAX_TIMER};
use super::io::ConnIo;
use super::limits::Limits;
use super::service::RequestService;
use crate::error::BoxError;
use crate::runtime::spawn;
use crate::runtime::tracked::Tracked;
use crate::tracking::task_registry::WorkKind;

/// Serves it to its end.
pub(super) async fn serve<S, B>(
    driver: &mut ConnDriver,
    shared: &Arc<ConnShared>,
    io: ConnIo,
    service: RequestService<S>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    let mut builder = hyper::server::conn::http2::Builder::new(Tracker::new(Arc::clone(shared)));
    set_http2(&mut builder, &shared.limits);
    let conn = builder.serve_connection(TokioIo::new(io), service);
    let mut told = false;
    // Until then the client has only been told to go elsewhere, and whatever it still sends is served. Then hyper
    // says it once more, and a round trip later which stream was the last.
    let turn = |conn: Pin<&mut hyper::server::conn::http2::Connection<_, _, _>>| {
        if shared.should_refuse_streams() && !std::mem::replace(&mut told, true) {
            conn.graceful_shutdown();
        }
    };
    driver.drive(pin!(conn), turn).await;
}

/// The settings of HTTP/2, within what the protocol allows.
fn set_http2(builder: &mut hyper::server::conn::http2::Builder<Tracker>, limits: &Limits) {
    /// 65,535 bytes is where every connection begins, and 2³¹ − 1 the largest window there is.
    const WINDOWS: (u32, u32) = (0xffff, 0x7fff_ffff);
    let pings = limits.http2_ping_interval;
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.http2_head_size)
        .initial_stream_window_size(limits.http2_stream_window.clamp(1, WINDOWS.1))
        .initial_connection_window_size(limits.http2_connection_window.clamp(WINDOWS.0, WINDOWS.1))
        .keep_alive_interval((pings < Duration::MAX).then_some(pings.min(MAX_TIMER)))
        .keep_alive_timeout(limits.http2_ping_timeout.min(MAX_TIMER));
    if limits.http2_extended_connect {
        builder.enable_connect_protocol();
    }
}

/// Runs the futures of HTTP/2 streams as tracked work.
struct Tracker {
    shared: Arc<ConnShared>,
    /// The request of the stream that has this copy.
    request: Option<u64>,
}

impl Tracker {
    const fn new(shared: Arc<ConnShared>) -> Self {
        Self {
            shared,
            request: None,
        }
    }
}

/// The protocol makes a copy for each stream, right after it has called the service with the stream's request.
impl Clone for Tracker {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            request: self.shared.last_request(),
        }
    }
}

impl<F> hyper::rt::Executor<F> for Tracker
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let server = &self.shared.server;
        // What a stream wants to be run, and not the connection, is its tunnel: the response has been given, and the handler
        // has the stream.
        let tunnel = self
            .request
            .and_then(|request| TunnelGuard::new(Arc::clone(&self.shared), request));
        let seat = spawn::register(
            &server.core,
            "stream".into(),
            server.place,
            WorkKind::Connection,
            None,
        );
        if let Ok(seat) = seat {
            // The protocol calls the service and spawns what that gives, one request after the other.
            if let Some(request) = self.request.or_else(|| self.shared.last_request()) {
                self.shared.runs_in(request, server.core.tasks.id(seat));
            }
            let core = Arc::clone(&server.core);
            match tunnel {
                None => drop(Tracked::new(core, seat, true, stream).spawn()),
                Some(tunnel) => {
                    let stream = async move {
                        stream.await;
                        drop(tunnel);
                    };
                    Tracked::new(core, seat, true, stream).spawn();
                }
            }
        }
    }
}
