//! `grpc.health.v1.Health`, answered from the readiness of the service.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut};
use http::{Extensions, Request, Response};
use http_body::Body;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream::Stream;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tower_service::Service;

use super::peer::Peer;
use crate::component::BoxFuture;
use crate::error::BoxError;
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;

/// The health service of gRPC, `grpc.health.v1.Health`, for load balancers, clients and the kubelet: `SERVING` while the
/// service that takes the call in is ready, and `NOT_SERVING` as soon as its stop begins, for the whole lame-duck period.
///
/// Ready means what `/readyz` of the [admin port](crate::App::admin) means: `setup` has returned, all servers listen, and
/// every [check](crate::App::check) passes. `Watch` tells of start and stop at once, asks the checks every five seconds, and
/// ends with `UNAVAILABLE` when the drain begins.
///
/// ```
/// # use tonic::server::NamedService;
/// # struct GreeterServer;
/// # impl NamedService for GreeterServer { const NAME: &'static str = "helloworld.Greeter"; }
/// use adieu::http::GrpcHealth;
/// use tonic::service::Routes;
///
/// async fn setup(app: &mut adieu::App) -> adieu::Result {
///     let listener = app.listen("grpc", "127.0.0.1:0").await?;
///     let health = GrpcHealth::new().service::<GreeterServer>();
///     app.http(listener, Routes::new(health)); // and .add_service(GreeterServer::new(greeter))
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct GrpcHealth {
    services: Arc<BTreeSet<&'static str>>,
}

/// How often the checks are asked for a client that watches.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
/// The name of a service is no longer.
const MAX_REQUEST: usize = 4 * 1_024;

impl GrpcHealth {
    /// Answers for the server as a whole, whose name is empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers for this service as well. All of them are as ready as the process is. Without it a client that asks for the name hears
    /// `NOT_FOUND`, and one that watches it `SERVICE_UNKNOWN`.
    #[must_use]
    pub fn service<S: NamedService>(mut self) -> Self {
        Arc::make_mut(&mut self.services).insert(S::NAME);
        self
    }

    fn knows(&self, name: &str) -> bool {
        name.is_empty() || self.services.contains(name)
    }
}

impl NamedService for GrpcHealth {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl<B> Service<Request<B>> for GrpcHealth
where
    B: Body + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let health = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(HealthCodec).max_decoding_message_size(MAX_REQUEST);
            Ok(match request.uri().path() {
                "/grpc.health.v1.Health/Check" => grpc.unary(CheckMethod(health), request).await,
                "/grpc.health.v1.Health/Watch" => {
                    grpc.server_streaming(WatchMethod(health), request).await
                }
                _ => Status::unimplemented("the methods are Check and Watch").into_http(),
            })
        })
    }
}

/// As on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum ServingStatus {
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

/// The service that has taken the call in.
fn stop_of(extensions: &Extensions) -> Result<Stop, Status> {
    let stop = Peer::of(extensions).and_then(|peer| peer.stop());
    let missing = "no adieu server has taken the call in, so there is no readiness to tell of";
    stop.ok_or_else(|| Status::failed_precondition(missing))
}

/// Whether the service is ready, and whether that can change without a start or a stop.
///
/// Dropped half-way, the running checks go on without an effect.
async fn readiness(stop: &Stop) -> (ServingStatus, bool) {
    let core = &stop.core;
    let mut has_checks = false;
    let is_running = core.running.is_open() && core.listeners().all_open();
    let mut is_ready = is_running && !core.is_stopping();
    for extension in core.extensions.iter() {
        if let Some(asking) = extension.asks_whether_ready(core) {
            has_checks = true;
            is_ready = is_ready && asking.await;
        }
    }
    // The stop may have begun while the checks were asked.
    if is_ready && !core.is_stopping() {
        (ServingStatus::Serving, has_checks)
    } else {
        (ServingStatus::NotServing, has_checks)
    }
}

struct CheckMethod(GrpcHealth);

impl UnaryService<String> for CheckMethod {
    type Response = ServingStatus;
    type Future = BoxFuture<Result<tonic::Response<ServingStatus>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let is_known = self.0.knows(request.get_ref());
        let stop = stop_of(request.extensions());
        Box::pin(async move {
            if !is_known {
                return Err(Status::not_found("there is no service of this name"));
            }
            let (status, _) = readiness(&stop?).await;
            Ok(tonic::Response::new(status))
        })
    }
}

struct WatchMethod(GrpcHealth);

impl ServerStreamingService<String> for WatchMethod {
    type Response = ServingStatus;
    type ResponseStream = Watching;
    type Future = std::future::Ready<Result<tonic::Response<Watching>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let is_known = self.0.knows(request.get_ref());
        let watching = stop_of(request.extensions()).map(|stop| {
            tonic::Response::new(Watching {
                stop,
                is_known,
                last: None,
                next: None,
            })
        });
        std::future::ready(watching)
    }
}

/// Every change of the status, beginning with what it is.
struct Watching {
    stop: Stop,
    is_known: bool,
    last: Option<ServingStatus>,
    next: Option<BoxFuture<Option<ServingStatus>>>,
}

impl Stream for Watching {
    type Item = Result<ServingStatus, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let (stop, is_known, last) = (&this.stop, this.is_known, this.last);
        let next = this
            .next
            .get_or_insert_with(|| Box::pin(next_status(stop.clone(), is_known, last)));
        let next = ready!(next.as_mut().poll(cx));
        this.next = None;
        this.last = next.or(this.last);
        let ended = || Status::unavailable("the server is shutting down");
        Poll::Ready(Some(next.ok_or_else(ended)))
    }
}

/// The next status that is not the last one; `None` once the drain has begun.
async fn next_status(
    stop: Stop,
    is_known: bool,
    last: Option<ServingStatus>,
) -> Option<ServingStatus> {
    let core = &stop.core;
    loop {
        // Made before the look, so that a change in between is not missed.
        let is_running = core.running.is_open() && core.listeners().all_open();
        let is_announced = core.announced.is_open();
        let (status, has_checks) = if is_known {
            readiness(&stop).await
        } else {
            (ServingStatus::ServiceUnknown, false)
        };
        if last != Some(status) {
            return Some(status);
        }
        // All of them forget nothing when they are dropped.
        tokio::select! {
            biased;
            () = stop.requested() => return None,
            () = core.announced.wait(), if !is_announced => {}
            () = until_running(core), if !is_running => {}
            () = tokio::time::sleep(WATCH_INTERVAL), if has_checks && !is_announced => {}
        }
    }
}

/// Completes when `setup` has returned and every server listens. Cancel-safe.
async fn until_running(core: &ServiceShared) {
    core.running.wait().await;
    core.listeners().until_all_open().await;
}

/// The two messages of the service: a name, and a status.
#[derive(Clone, Copy)]
struct HealthCodec;

impl Codec for HealthCodec {
    type Encode = ServingStatus;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for HealthCodec {
    type Item = ServingStatus;
    type Error = Status;

    fn encode(&mut self, status: ServingStatus, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Field 1, a number.
        buffer.put_slice(&[0x08, status as u8]);
        Ok(())
    }
}

impl Decoder for HealthCodec {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let name = service_name(&bytes);
        let bad = "the message is not a grpc.health.v1.HealthCheckRequest";
        name.map(Some).ok_or_else(|| Status::invalid_argument(bad))
    }
}

/// Field 1 of a message of protocol buffers, a text; empty if there is none. The last one counts, and others are passed over.
fn service_name(mut bytes: &[u8]) -> Option<String> {
    let mut name = String::new();
    while !bytes.is_empty() {
        let key = take_number(&mut bytes)?;
        let length = match key & 7 {
            0 => {
                take_number(&mut bytes)?;
                0
            }
            1 => 8,
            2 => usize::try_from(take_number(&mut bytes)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        if key == ((1 << 3) | 2) {
            name = String::from_utf8(value.to_vec()).ok()?;
        }
    }
    Some(name)
}

/// A number of variable length: seven bits of it in each byte, the lowest first.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_field_one() {
        assert_eq!(service_name(b"").as_deref(), Some(""));
        assert_eq!(service_name(b"\x0a\x03abc").as_deref(), Some("abc"));
        assert_eq!(service_name(b"\x0a\x03abc\x0a\x01x").as_deref(), Some("x"));
        // Field 2 as a number, as eight bytes, as text and as four bytes.
        let others = b"\x10\xac\x02\x1112345678\x12\x02hi\x151234\x0a\x03abc";
        assert_eq!(service_name(others).as_deref(), Some("abc"));
        let long = [&b"\x0a\xac\x02"[..], &[b'x'; 300]].concat();
        assert_eq!(service_name(&long).map(|it| it.len()), Some(300));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let cases: &[&[u8]] = &[
            b"\x0a",
            b"\x0a\x04abc",
            b"\x0a\x01\xff",
            b"\x0b",
            b"\x10",
            b"\x11234",
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ];
        for bytes in cases {
            assert_eq!(service_name(bytes), None, "{bytes:?}");
        }
    }
}
