//! The handler of a WebSocket from its beginning to its end; then its connection moves to the new process, or is closed.
//!
//! All of it is the task of the connection: while it moves, nothing else in this process reads it or writes to it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use futures_util::Sink;
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite as ws;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::Role;
use tower_service::Service;

use super::body::RequestBody;
use super::close_policy::Protocol;
use super::conn_state::{ConnShared, now_ms};
use super::connection::ConnDriver;
use super::io::ConnIo;
use super::service::RequestService;
use super::ws_socket::{FrameIo, Lender, WebSocket};
use super::ws_upgrade::{AcceptedUpgrade, again, is_agreed};
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::net::{Carried, CarriedRequest, ConnectionSnapshot, DrainStage, Kind, RawState};
use crate::util::panics;

/// The handler has returned.
const NORMAL: u16 = 1000;
/// It has failed.
const INTERNAL_ERROR: u16 = 1011;
/// A new process does not take the connection; the client is to connect again.
const SERVICE_RESTART: u16 = 1012;
/// How long the close frame may take to go out, and the client's answer to it; in a stop there are shorter limits.
const CLOSE_FRAME_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a connection whose request for a WebSocket this process has answered.
pub(super) async fn serve(
    driver: &mut ConnDriver,
    shared: &Arc<ConnShared>,
    mut accepted: Box<AcceptedUpgrade>,
) {
    let Some(on_upgrade) = accepted.on_upgrade.take() else {
        return;
    };
    let Some(Ok(upgraded)) = driver.drive(pin!(on_upgrade), |_| {}).await else {
        return;
    };
    let Ok(parts) = upgraded.downcast::<TokioIo<ConnIo>>() else {
        return;
    };
    let mut io = parts.io.into_inner();
    io.unread(parts.read_buf);
    run(driver, shared, *accepted, io, None).await;
}

/// Serves a connection that was a WebSocket in the old process: its request is given to the service once more, and the
/// route that answers it takes the connection.
pub(super) async fn adopt<S, B, F>(
    driver: &mut ConnDriver,
    shared: &Arc<ConnShared>,
    mut io: ConnIo,
    (request, state): (CarriedRequest, Option<RawState>),
    service: F,
) where
    F: Future<Output = Result<S, BoxError>>,
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    shared.counters.enter(Protocol::WebSocket, now_ms());
    io.is_moved_websocket();
    shared.upgrade.remember(request.clone());
    let answer = async {
        let service = service.await?;
        let again = again(&request)?;
        let id = shared.begin(again.method().clone(), again.uri().clone());
        let desk = RequestService::new(service, Arc::clone(shared));
        let response = desk.answer(again, id).await?;
        Ok::<_, BoxError>(response.status())
    };
    let answer = driver.drive(pin!(answer), |_| {}).await;
    let accepted = shared.upgrade.take_accepted();
    let why = match (answer, accepted, state) {
        (None, ..) => return,
        (Some(Ok(StatusCode::SWITCHING_PROTOCOLS)), Some(accepted), Some(state)) => {
            if is_agreed(&accepted, &request) {
                let state = Some(state.into());
                return run(driver, shared, *accepted, io, state).await;
            }
            "the route speaks another subprotocol".to_owned()
        }
        (Some(Ok(StatusCode::SWITCHING_PROTOCOLS)), ..) => {
            "the route does not use adieu's WebSockets".to_owned()
        }
        (Some(Ok(status)), ..) => format!("the route answers {status}"),
        (Some(Err(error)), ..) => error.to_string(),
    };
    let peer = shared.socket.peer();
    shared.server.core.log_deferred(move || {
        tracing::warn!(target: "adieu", peer, why, "a WebSocket of the old process is closed");
    });
    shared.upgrade.closes(SERVICE_RESTART);
    close(driver, shared, FrameIo::new(io)).await;
}

async fn run(
    driver: &mut ConnDriver,
    shared: &Arc<ConnShared>,
    accepted: AcceptedUpgrade,
    io: ConnIo,
    state: Option<Carried>,
) {
    let is_adopted = state.is_some();
    let lender = Lender::default();
    let config = Some(accepted.config);
    let stream = WebSocketStream::from_raw_socket(FrameIo::new(io), Role::Server, config).await;
    shared.upgrade.begin(accepted.protocol.as_ref());
    let socket = WebSocket::new(
        stream,
        Arc::clone(shared),
        lender.clone(),
        accepted.protocol,
    );
    let mut work = Some((accepted.work)(socket, state));
    let mut ended = Ok(());
    let (mut is_told, mut closes) = (false, false);
    let step = poll_fn(|cx| {
        // The reader or the writer may be another task, which looks at the stage then.
        let is_draining = shared.server.drain_stage() >= DrainStage::Lingering;
        let closing = shared.counters.closes_websocket();
        if closing {
            shared.try_close_frame(cx);
        }
        if is_draining && !std::mem::replace(&mut is_told, true)
            || closing && !std::mem::replace(&mut closes, true)
        {
            shared.reader.wake();
            shared.writer.wake();
        }
        if let Some(Poll::Ready(result)) = work.as_mut().map(|work| poll_handler(work, cx)) {
            (work, ended) = (None, result);
        }
        match (&work, lender.take()) {
            (None, Some(lent)) => Poll::Ready(lent),
            _ => Poll::Pending,
        }
    });
    let Some((stream, carried)) = driver.drive(pin!(step), |_| {}).await else {
        return;
    };
    let has_failed = ended.is_err();
    if let Err(error) = ended {
        let peer = shared.socket.peer();
        shared.server.core.log_deferred(move || {
            // That clients go away is everyday life, and no reason to fill a log.
            if is_departure(&*error) {
                tracing::debug!(target: "adieu", peer, %error, "a WebSocket failed");
            } else {
                tracing::warn!(target: "adieu", peer, %error, "the handler of a WebSocket failed");
            }
        });
    }
    let Some(mut io) = flushed(driver, stream).await else {
        return;
    };
    if let Some(state) = carried.filter(|_| !has_failed) {
        match move_out(driver, shared, io, state).await {
            Some(back) => io = back,
            None => return,
        }
    }
    if is_adopted && has_failed {
        shared.upgrade.closes(SERVICE_RESTART);
    } else if shared.server.drain_stage() < DrainStage::Lingering {
        shared
            .upgrade
            .closes(if has_failed { INTERNAL_ERROR } else { NORMAL });
    }
    close(driver, shared, io).await;
}

/// A handler that panics costs its client the connection, and no other client anything.
fn poll_handler(work: &mut BoxFuture<crate::Result>, cx: &mut Context<'_>) -> Poll<crate::Result> {
    catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|payload| {
        let panic = panics::describe(payload);
        let place = panic.place.as_deref().unwrap_or("?");
        Poll::Ready(Err(format!("it {panic} at {place}").into()))
    })
}

/// Whether the client has gone, or was cut off.
fn is_departure(error: &(dyn std::error::Error + 'static)) -> bool {
    use ws::Error::{AlreadyClosed, ConnectionClosed, Io, Protocol};
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| match cause.downcast_ref() {
        Some(Protocol(why)) => *why == ProtocolError::ResetWithoutClosingHandshake,
        found => matches!(found, Some(AlreadyClosed | ConnectionClosed | Io(_))),
    })
}

/// Writes what the handler has sent, and takes the connection back; `None` if the client is gone, or does not read.
async fn flushed(driver: &mut ConnDriver, mut stream: WebSocketStream<FrameIo>) -> Option<FrameIo> {
    let flush = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx));
    let flushed = driver
        .drive(pin!(timeout(CLOSE_FRAME_TIMEOUT, flush)), |_| {})
        .await;
    matches!(flushed, Some(Ok(Ok(())))).then(|| stream.into_inner())
}

/// Leaves a connection to the new process. `None` if it is that one's now; else it is this one's, as before.
///
/// Dropped half-way, at the end of the drain, this process's copy is closed: the new process may have the connection.
async fn move_out(
    driver: &mut ConnDriver,
    shared: &Arc<ConnShared>,
    io: FrameIo,
    state: Carried,
) -> Option<FrameIo> {
    let Some(successor) = shared.websocket_successor().cloned() else {
        return Some(io);
    };
    shared.upgrade.set_left(true);
    let turn = driver.drive(pin!(successor.turn()), |_| {}).await;
    shared.upgrade.set_left(false);
    let Some(Some(turn)) = turn else {
        return Some(io);
    };
    let line = shared.line();
    let is_between_frames = line.is_some_and(|line| line.lock().is_between_frames());
    let (Some(unread), Some(request), true) =
        (io.all_unread(), shared.upgrade.request(), is_between_frames)
    else {
        return Some(io);
    };
    let mut counters = shared.carried_counters();
    // The request is counted again where its route sees it again.
    counters.served = counters.served.saturating_sub(1);
    let (state, _) = state.into_parts();
    let snapshot = ConnectionSnapshot {
        counters,
        peer: shared.socket.peer_addr(),
        request: Some(request),
        unread,
        state: Some(state),
        ..ConnectionSnapshot::default()
    };
    shared.is_offered.store(true, Relaxed);
    let mut moving = FramesReleasedOnDrop(Some(io));
    let is_moved = shared
        .server
        .move_out(turn, Kind::WebSocket, &shared.socket, snapshot, "WebSocket")
        .await;
    if is_moved {
        return None;
    }
    shared.is_offered.store(false, Relaxed);
    moving.0.take()
}

/// A connection that is another process's, or may be.
struct FramesReleasedOnDrop(Option<FrameIo>);

impl Drop for FramesReleasedOnDrop {
    fn drop(&mut self) {
        if let Some(io) = self.0.take() {
            io.io.release();
        }
    }
}

/// Tells the client, unless the handler has, and waits for its answer.
async fn close(driver: &mut ConnDriver, shared: &ConnShared, mut io: FrameIo) {
    shared.counters.close_websocket(now_ms());
    let end = poll_fn(|cx| {
        shared.try_close_frame(cx);
        io.poll_end(cx)
    });
    let _ = driver
        .drive(pin!(timeout(CLOSE_FRAME_TIMEOUT, end)), |_| {})
        .await;
}
