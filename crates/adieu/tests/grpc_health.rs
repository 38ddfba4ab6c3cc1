//! `grpc.health.v1` as its clients see it: from start to stop, and with a check that fails.
#![cfg(all(feature = "axum", feature = "admin", feature = "tonic", unix))]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use adieu::http::GrpcHealth;
use adieu::{App, ShutdownHandle, scope};
use axum::http::uri::PathAndQuery;
use tokio::sync::oneshot;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Messages as their bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let count = bytes::Buf::remaining(buffer);
        Ok(Some(bytes::Buf::copy_to_bytes(buffer, count).to_vec()))
    }
}

const SERVING: &[u8] = b"\x08\x01";
const NOT_SERVING: &[u8] = b"\x08\x02";
const SERVICE_UNKNOWN: &[u8] = b"\x08\x03";

/// A HealthCheckRequest.
fn name(service: &str) -> Request<Vec<u8>> {
    let length = u8::try_from(service.len()).expect("a short name");
    Request::new([&[0x0a, length], service.as_bytes()].concat())
}

struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn of(address: SocketAddr) -> Self {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
        let channel = endpoint.expect("a URL").connect().await;
        Self(tonic::client::Grpc::new(
            channel.expect("the server accepts"),
        ))
    }

    async fn check(&mut self, service: &str) -> Result<Vec<u8>, Status> {
        self.0.ready().await.expect("the channel is ready");
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let answer = self.0.unary(name(service), path, Raw).await;
        answer.map(tonic::Response::into_inner)
    }

    async fn watch(&mut self, service: &str) -> Streaming<Vec<u8>> {
        self.0.ready().await.expect("the channel is ready");
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
        let answer = self.0.server_streaming(name(service), path, Raw).await;
        answer.expect("it is served").into_inner()
    }
}

struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "helloworld.Greeter";
}

/// Serves the health of a service whose check passes while `passes`, lets `client` ask, and stops.
async fn with_server(
    passes: Arc<AtomicBool>,
    client: impl AsyncFnOnce(SocketAddr, ShutdownHandle),
) {
    let (listens, is_listening) = oneshot::channel();
    let serving = scope("health")
        .grace(Duration::from_secs(20))
        .lame_duck(Duration::from_secs(1))
        .run(async |app: &mut App| {
            app.check("database", move || {
                let passes = passes.load(Relaxed);
                async move { passes.then_some(()).ok_or("it is away") }
            })
            .cache(Duration::ZERO);
            let listener = app.listen("grpc", "127.0.0.1:0").await?;
            let (address, handle) = (
                listener.local_addr().expect("an address"),
                app.shutdown_handle(),
            );
            let listener = listener.on_listening(move |_| {
                let _ = listens.send((address, handle));
            });
            app.http(
                listener,
                Routes::new(GrpcHealth::new().service::<Greeter>()),
            );
            Ok(())
        });
    let asking = async {
        let (address, handle) = is_listening.await.expect("setup runs");
        // A moment lies between the first accept and the end of the start: a watch tells when it is over.
        let mut watching = Client::of(address).await.watch("").await;
        let mut status = watching.message().await;
        while matches!(&status, Ok(Some(status)) if status == NOT_SERVING) {
            status = watching.message().await;
        }
        assert_eq!(status.expect("a status").as_deref(), Some(SERVING));
        drop(watching);
        client(address, handle.clone()).await;
        handle.stop("all is said");
    };
    let (report, ()) = tokio::join!(serving, asking);
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_tells_of_readiness() {
    let passes = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&passes);
    with_server(passes, async |address, _| {
        let mut client = Client::of(address).await;
        for known in ["", Greeter::NAME] {
            assert_eq!(
                client.check(known).await.expect("a status"),
                SERVING,
                "{known}"
            );
        }
        let unknown = client.check("helloworld.Parting").await;
        assert_eq!(unknown.expect_err("no such service").code(), Code::NotFound);
        flag.store(false, Relaxed);
        assert_eq!(client.check("").await.expect("a status"), NOT_SERVING);
        flag.store(true, Relaxed);
        assert_eq!(client.check("").await.expect("a status"), SERVING);
    })
    .await;
}

/// Nothing here waits for a time of five seconds: a watching client gets the stop itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_hears_of_the_stop_when_it_begins_and_ends_with_it() {
    let passes = Arc::new(AtomicBool::new(true));
    with_server(passes, async |address, handle| {
        let mut client = Client::of(address).await;
        let mut watching = client.watch(Greeter::NAME).await;
        let mut unknown = client.watch("helloworld.Parting").await;
        let first = watching.message().await.expect("a status");
        assert_eq!(first.as_deref(), Some(SERVING));
        let first = unknown.message().await.expect("a status");
        assert_eq!(first.as_deref(), Some(SERVICE_UNKNOWN));
        handle.stop("it is time");
        let next = watching.message().await.expect("a status");
        assert_eq!(next.as_deref(), Some(NOT_SERVING));
        for mut watching in [watching, unknown] {
            let end = watching.message().await.expect_err("the end");
            assert_eq!(end.code(), Code::Unavailable, "{end}");
        }
    })
    .await;
}

/// Without checks there is no time after which it is asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_hears_when_the_last_server_listens() {
    let (listens, is_listening) = oneshot::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let serving = scope("health").run(async |app: &mut App| {
        let listener = app.listen("grpc", "127.0.0.1:0").await?;
        let (address, handle) = (
            listener.local_addr().expect("an address"),
            app.shutdown_handle(),
        );
        let listener = listener.on_listening(move |_| {
            let _ = listens.send((address, handle));
        });
        app.http(listener, Routes::new(GrpcHealth::new()));
        let slow = app.listen("slow", "127.0.0.1:0").await?;
        let slow = slow.on_listening(move |_| {
            let _ = goes_on.recv_timeout(Duration::from_secs(60));
        });
        app.http(slow, Routes::new(GrpcHealth::new()));
        Ok(())
    });
    let asking = async {
        let (address, handle) = is_listening.await.expect("setup runs");
        let mut watching = Client::of(address).await.watch("").await;
        let first = watching.message().await.expect("a status");
        assert_eq!(first.as_deref(), Some(NOT_SERVING));
        go_on.send(()).expect("the server waits");
        let next = watching.message().await.expect("a status");
        assert_eq!(next.as_deref(), Some(SERVING));
        handle.stop("all is said");
    };
    let (report, ()) = tokio::join!(serving, asking);
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// A router that is called without a server has no readiness to tell of.
#[tokio::test]
async fn without_a_server_it_says_so() {
    use tonic::codegen::Service;
    let request = axum::http::Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .body(axum::body::Body::from(&b"\0\0\0\0\0"[..]))
        .expect("a request");
    let answer = Service::call(&mut GrpcHealth::new(), request)
        .await
        .expect("an answer");
    let status = answer.headers().get("grpc-status").expect("a status");
    assert_eq!(status, "9", "FAILED_PRECONDITION");
}
