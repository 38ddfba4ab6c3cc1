//! gRPC on the same part as everything else: a stream of the server in flight at the stop is delivered whole,
//! with its status.
#![cfg(all(feature = "axum", feature = "http2", unix))]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use adieu::{App, ShutdownHandle, scope};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::uri::PathAndQuery;
use axum::routing::post;
use futures_util::stream::{self, Stream};
use tokio::sync::oneshot;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::{Request, Response, Status};

/// Messages are plain text: no schema, no generated code.
#[derive(Clone, Copy, Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
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

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let count = bytes::Buf::remaining(buffer);
        let bytes: Bytes = bytes::Buf::copy_to_bytes(buffer, count);
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[derive(Clone)]
struct Ticks;

type Ticking = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

impl Service<Request<String>> for Ticks {
    type Response = Response<Ticking>;
    type Error = Status;
    type Future = std::future::Ready<Result<Response<Ticking>, Status>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Status>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        #[cfg(feature = "tonic")]
        {
            let is_local = |addr: Option<SocketAddr>| addr.is_some_and(|it| it.ip().is_loopback());
            assert!(
                is_local(request.remote_addr()),
                "as under tonic's own server"
            );
            assert!(
                is_local(request.local_addr()),
                "as under tonic's own server"
            );
        }
        let name = request.into_inner();
        let ticks = stream::unfold(0, move |number| {
            let tick = format!("{name} {number}");
            async move {
                if number == 10 {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Ok(tick), number + 1))
            }
        });
        std::future::ready(Ok(Response::new(Box::pin(ticks))))
    }
}

async fn ticks(
    request: axum::http::Request<Body>,
) -> Result<axum::http::Response<tonic::body::Body>, Infallible> {
    Ok(tonic::server::Grpc::new(Text)
        .server_streaming(Ticks, request)
        .await)
}

const METHOD: &str = "/test.Clock/Ticks";

async fn play(address: SocketAddr, handle: ShutdownHandle) -> Vec<String> {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
        .expect("a URL")
        .connect()
        .await
        .expect("the server accepts");
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("the channel is ready");
    let request = Request::new("tick".to_owned());
    let answer = client
        .server_streaming(request, PathAndQuery::from_static(METHOD), Text)
        .await
        .expect("an answer");
    let mut stream = answer.into_inner();
    let mut seen = Vec::new();
    // The end of the stream is an error unless its status says that it is whole.
    while let Some(tick) = stream.message().await.expect("the stream goes on") {
        handle.stop("the first tick has come");
        seen.push(tick);
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_under_way_is_delivered_whole() {
    let (running_to, running) = oneshot::channel();
    let mut playing = None;
    let report = scope("grpc")
        .grace(Duration::from_secs(10))
        .run(async |app: &mut App| {
            let listener = app.listen("grpc", "127.0.0.1:0").await?;
            let address = listener.local_addr().expect("an address");
            app.http(listener, Router::new().route(METHOD, post(ticks)));
            let handle = app.shutdown_handle();
            playing = Some(tokio::spawn(async move {
                running.await.expect("it starts");
                // The port is bound, and listens a moment after `setup`.
                while tokio::net::TcpStream::connect(address).await.is_err() {
                    tokio::task::yield_now().await;
                }
                play(address, handle).await
            }));
            let _ = running_to.send(());
            Ok(())
        })
        .await;
    let seen = playing.expect("it plays").await.expect("it ends");
    let expected: Vec<String> = (0..10).map(|number| format!("tick {number}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.lost().is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_cut_before_its_response_is_unavailable() {
    let (listens, is_listening) = oneshot::channel();
    let service = scope("grpc")
        .grace(Duration::from_secs(1))
        .run(async move |app: &mut App| {
            let listener = app.listen("grpc", "127.0.0.1:0").await?;
            let address = listener.local_addr().expect("an address");
            let listener = listener.on_listening(move |_| {
                let _ = listens.send(address);
            });
            let handle = app.shutdown_handle();
            let never = post(async move || {
                handle.stop("the call has come");
                std::future::pending::<()>().await;
            });
            app.http(listener, Router::new().route(METHOD, never));
            Ok(())
        });
    let call = async {
        let address = is_listening.await.expect("setup goes on");
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
        let channel = endpoint.expect("a URL").connect().await;
        let mut client = tonic::client::Grpc::new(channel.expect("the server accepts"));
        client.ready().await.expect("the channel is ready");
        let request = Request::new("never".to_owned());
        let path = PathAndQuery::from_static(METHOD);
        client.server_streaming(request, path, Text).await
    };
    // Both are over when this is.
    let (report, answer) = tokio::join!(service, call);
    let status = answer.expect_err("no response");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
    assert_eq!(status.message(), "the server is shutting down");
    assert_ne!(report.exit_code(), 0, "{report}");
}
