//! A request of a client on its way to the command, and the response on its way back. Neither is held: pieces of a body pass as they
//! come, and each side waits for the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use adieu::http::{Peer, RequestBody};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy, split};
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::headers::{self, Unfit};
use super::routes::Unrouted;
use super::upload::{Continue, Upload};
use super::upstream::{ConnectError, Connection, InFlight};
use super::{Shared, Users};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a request waits for a command that is started again.
const RESTART_WAIT: Duration = Duration::from_secs(10);
/// One side of a tunnel after the other has closed.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(10);

/// The service that our server calls. Our server is through with all connections when the last of these is dropped.
#[derive(Clone)]
pub(super) struct Gateway {
    pub(super) shared: Arc<Shared>,
    pub(super) _users: Users,
}

impl Service<Request<RequestBody>> for Gateway {
    type Response = Response<Answer>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let answered = forward(&shared, request).await;
            Ok(answered.unwrap_or_else(|failure| {
                shared.note(failure);
                failure.response()
            }))
        })
    }
}

/// Why the answer is ours and not the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Unfit(Unfit),
    /// No process of the command takes requests.
    Unrouted(Unrouted),
    /// The command closed the connection, or what it sent is not HTTP.
    NoResponse,
    /// It switched to a protocol that was not asked for.
    Switched,
    /// We have no means to reach it.
    Own,
}

impl Failure {
    const fn status(self) -> StatusCode {
        match self {
            Self::Unfit(Unfit::Host) => StatusCode::BAD_REQUEST,
            Self::Unfit(Unfit::Tunnel) => StatusCode::NOT_IMPLEMENTED,
            Self::Unrouted(_) | Self::Own => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoResponse | Self::Switched => StatusCode::BAD_GATEWAY,
        }
    }

    /// For the client and for the log. Nothing in it comes from either side.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unfit(Unfit::Host) => {
                "a request needs one Host header, with a host and no user name\n"
            }
            Self::Unfit(Unfit::Tunnel) => "CONNECT is not forwarded\n",
            Self::Unrouted(Unrouted::Stopping) => {
                "the service is stopping: send the request again\n"
            }
            Self::Unrouted(Unrouted::Late) => {
                "the service is not ready: send the request again later\n"
            }
            Self::Unrouted(Unrouted::Crowd) => {
                "too many requests wait for the service to get ready: send the request again later\n"
            }
            Self::NoResponse => {
                "the service closed the connection or sent no valid HTTP response. It may have acted on the request, \
                 which was not sent again\n"
            }
            Self::Switched => "the service switched to a protocol that was not asked for\n",
            Self::Own => {
                "the service cannot be reached for want of resources: send the request again later\n"
            }
        }
    }

    fn response(self) -> Response<Answer> {
        let mut response = Response::new(Answer::text(self.text()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, text);
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Dropped half-way because the client is gone, the connection to the command is closed, so that it sees that, too.
async fn forward(
    shared: &Arc<Shared>,
    mut request: Request<RequestBody>,
) -> Result<Response<Answer>, Failure> {
    let peer = Peer::of(request.extensions()).and_then(|peer| peer.addr());
    let client = hyper::upgrade::on(&mut request);
    let (mut parts, body) = request.into_parts();
    let is_websocket = headers::asks_for_websocket(&parts);
    headers::to_command(&mut parts, peer, shared.policy).map_err(Failure::Unfit)?;
    parts.extensions.clear();
    let (mut response, connection, in_flight) = exchange(shared, parts, body).await?;
    let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if is_switched {
        if !is_websocket {
            return Err(Failure::Switched);
        }
        let command = hyper::upgrade::on(&mut response);
        // It ends with either side, and is not waited for.
        tokio::spawn(tunnel(client, command, connection));
        let (mut parts, _) = response.into_parts();
        headers::to_client(&mut parts, true);
        return Ok(Response::from_parts(parts, Answer::text("")));
    }
    let is_stream = is_event_stream(&response);
    let (mut parts, body) = response.into_parts();
    headers::to_client(&mut parts, false);
    let answer = Answer::command(body, connection, in_flight, is_stream);
    Ok(Response::from_parts(parts, answer))
}

/// Events have no end that could be waited for.
fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    response.body().size_hint().exact().is_none()
        && kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

/// Sends the request to a process of the command. To another one, or once more, only as long as not a byte of it has left.
async fn exchange(
    shared: &Arc<Shared>,
    parts: Parts,
    mut body: RequestBody,
) -> Result<(Response<Incoming>, Connection, InFlight), Failure> {
    let until = Instant::now() + RESTART_WAIT;
    let awaits = headers::waits_for_continue(&parts.headers) && !body.is_end_stream();
    let mut refused = Vec::new();
    loop {
        let in_flight = shared.routes.pick(&refused, until).await;
        let in_flight = in_flight.map_err(Failure::Unrouted)?;
        let upstream = Arc::clone(in_flight.upstream());
        let mut connection = match upstream.idle_connection() {
            Some(connection) => connection,
            None => match upstream.connect().await {
                Ok(connection) => connection,
                Err(ConnectError::Own(error)) => {
                    shared.note_own(&error);
                    return Err(Failure::Own);
                }
                Err(ConnectError::Refused | ConnectError::Full) => {
                    refused.push(upstream);
                    continue;
                }
            },
        };
        let state = Arc::clone(&connection.state);
        let before = state.written();
        let awaited = awaits.then(Arc::<Continue>::default);
        let upload = Upload::new(body, &state, awaited.clone());
        let returned = upload.returned();
        let mut request = Request::from_parts(parts.clone(), upload);
        if let Some(awaited) = awaited {
            hyper::ext::on_informational(&mut request, move |said| {
                if said.status() == StatusCode::CONTINUE {
                    awaited.say();
                }
            });
        }
        let sent = connection.send(request).await;
        match sent {
            Ok(response) => return Ok((response, connection, in_flight)),
            Err(error) => {
                // It holds the body, if it was not sent.
                drop(error);
                match returned.take() {
                    Some(again) if state.written() == before => body = again,
                    _ => return Err(Failure::NoResponse),
                }
                // A used connection may have been closed for its age; a new one may not: ask elsewhere.
                if before == 0 {
                    refused.push(upstream);
                }
            }
        }
    }
}

/// Passes bytes on in both directions until either side has closed and the other has had a moment more.
async fn tunnel(client: OnUpgrade, command: OnUpgrade, connection: Connection) {
    let Ok((client, command)) = tokio::try_join!(client, command) else {
        return;
    };
    drop(connection);
    let halves = |upgraded: Upgraded| split(TokioIo::new(upgraded));
    let ((mut from_client, mut to_client), (mut from_command, mut to_command)) =
        (halves(client), halves(command));
    let up = async {
        let _ = copy(&mut from_client, &mut to_command).await;
        let _ = to_command.shutdown().await;
    };
    let down = async {
        let _ = copy(&mut from_command, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
    let rest: Pin<&mut (dyn Future<Output = ()> + Send)> = tokio::select! {
        () = &mut up => down,
        () = &mut down => up,
    };
    let _ = timeout(HALF_CLOSED_TIMEOUT, rest).await;
}

/// The body of a response.
pub(super) struct Answer(AnswerBody);

enum AnswerBody {
    Text(&'static str),
    Command(Box<CommandBody>),
}

struct CommandBody {
    body: Incoming,
    /// Until it is read to its end.
    connection: Option<(Connection, InFlight)>,
    /// Of a stream of events, which may end between any two.
    closing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Answer {
    const fn text(text: &'static str) -> Self {
        Self(AnswerBody::Text(text))
    }

    fn command(
        body: Incoming,
        connection: Connection,
        in_flight: InFlight,
        is_stream: bool,
    ) -> Self {
        let closing = is_stream.then(|| {
            let closing: Pin<Box<dyn Future<Output = ()> + Send>> =
                Box::pin(in_flight.upstream().closing());
            closing
        });
        let mut command = CommandBody {
            body,
            connection: Some((connection, in_flight)),
            closing,
        };
        if is_stream {
            command.is_not_awaited();
        }
        if command.body.is_end_stream() {
            command.finish();
        }
        Self(AnswerBody::Command(Box::new(command)))
    }
}

impl CommandBody {
    /// Its end is not waited for when the process is replaced.
    fn is_not_awaited(&mut self) {
        if let Some((_, in_flight)) = &mut self.connection {
            in_flight.is_not_awaited();
        }
    }

    fn finish(&mut self) {
        if let Some((connection, in_flight)) = self.connection.take() {
            in_flight.finish(connection);
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Pending => {
                let closing = self.closing.as_mut();
                if closing.is_some_and(|closing| closing.as_mut().poll(cx).is_ready()) {
                    // The end of a stream of events is a whole answer: the client connects again.
                    self.closing = None;
                    self.connection = None;
                    return Poll::Ready(None);
                }
            }
            Poll::Ready(None) => self.finish(),
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.finish(),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_))) => self.connection = None,
        }
        polled.map_err(Into::into)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            AnswerBody::Text("") => Poll::Ready(None),
            AnswerBody::Text(text) => {
                let text = std::mem::take(text);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
            }
            AnswerBody::Command(command) => command.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            AnswerBody::Text(text) => text.is_empty(),
            AnswerBody::Command(command) => command.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            AnswerBody::Text(text) => SizeHint::with_exact(text.len() as u64),
            AnswerBody::Command(command) => command.body.size_hint(),
        }
    }
}
