//! Who the client is: for extractors, for services that are no router, for handlers of connections.

use std::convert::Infallible;
use std::net::SocketAddr;

use adieu::http::{Peer, Stopping};
use adieu::{App, scope};
use axum::extract::ConnectInfo;
use axum::{Extension, Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::codegen::Service;

use crate::client::{connect, get as ask};

/// Serves what `serve` registers, lets `client` talk to it, and stops.
async fn with_server<T>(
    serve: impl FnOnce(&mut App, adieu::net::Listener),
    client: impl AsyncFnOnce(SocketAddr) -> T,
) -> T {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let serving =
        scope("peers")
            .stop_when(async { drop(is_over.await) })
            .run(async |app: &mut App| {
                let listener = app.listen("web", "127.0.0.1:0").await?;
                let _ = tell.send(listener.local_addr().expect("an address"));
                serve(app, listener);
                Ok(())
            });
    let talking = async {
        let said = client(told.await.expect("setup runs")).await;
        drop(over);
        said
    };
    let (report, said) = tokio::join!(serving, talking);
    assert_eq!(report.exit_code(), 0, "{report}");
    said
}

fn whoami() -> Router {
    Router::new()
        .route(
            "/info",
            get(async |ConnectInfo(addr): ConnectInfo<SocketAddr>| addr.to_string()),
        )
        .route(
            "/peer",
            get(async |peer: Peer| format!("{:?} {:?}", peer.addr(), peer.local_addr())),
        )
        .route(
            "/both",
            get(async |peer: Option<Peer>, stop: Option<Stopping>| {
                format!("{} {}", peer.is_some(), stop.is_some())
            }),
        )
}

async fn see(address: SocketAddr) -> (SocketAddr, [String; 3]) {
    let mut stream = connect(address).await;
    let ours = stream.local_addr().expect("an address");
    let mut said = [const { String::new() }; 3];
    for (said, path) in said.iter_mut().zip(["/info", "/peer", "/both"]) {
        let (status, body) = ask(&mut stream, path).await;
        assert!(status.contains("200"), "{path}: {status}");
        *said = body;
    }
    let peer = format!("{:?} {:?}", Some(ours), Some(address));
    assert_eq!(said, [ours.to_string(), peer, "true true".to_owned()]);
    (ours, said)
}

#[tokio::test]
async fn a_router_knows_its_client_in_every_form_that_axum_takes() {
    with_server(|app, on| drop(app.http(on, whoami())), see).await;
    let plain = |app: &mut App, on| drop(app.http(on, whoami().into_make_service()));
    with_server(plain, see).await;
    let with_info = |app: &mut App, on| {
        let service = whoami().into_make_service_with_connect_info::<SocketAddr>();
        drop(app.http(on, service));
    };
    with_server(with_info, see).await;
}

#[tokio::test]
async fn a_type_of_the_program_is_made_from_the_peer() {
    #[derive(Clone)]
    struct Local(bool);

    impl axum::extract::connect_info::Connected<Peer> for Local {
        fn connect_info(peer: Peer) -> Self {
            Self(peer.addr().is_some_and(|addr| addr.ip().is_loopback()))
        }
    }

    let router = Router::new().route(
        "/",
        get(async |ConnectInfo(local): ConnectInfo<Local>| local.0.to_string()),
    );
    let serve = |app: &mut App, on| {
        drop(app.http(on, router.into_make_service_with_connect_info::<Local>()));
    };
    let said = with_server(serve, async |address| {
        ask(&mut connect(address).await, "/").await.1
    })
    .await;
    assert_eq!(said, "true");
}

/// `tower::util::BoxCloneService` is `Clone + Send`, and not `Sync`.
#[tokio::test]
async fn a_service_that_is_not_sync_is_served() {
    struct NotSync(std::cell::Cell<u32>);

    impl Clone for NotSync {
        fn clone(&self) -> Self {
            Self(std::cell::Cell::new(self.0.get()))
        }
    }

    impl Service<axum::http::Request<adieu::http::RequestBody>> for NotSync {
        type Response = axum::http::Response<String>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Infallible>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: axum::http::Request<adieu::http::RequestBody>) -> Self::Future {
            let peer = Peer::of(request.extensions()).and_then(|peer| peer.addr());
            std::future::ready(Ok(axum::http::Response::new(format!("{peer:?}"))))
        }
    }

    let serve = |app: &mut App, on| drop(app.http(on, NotSync(std::cell::Cell::new(0))));
    with_server(serve, async |address| {
        let mut stream = connect(address).await;
        let ours = stream.local_addr().expect("an address");
        let (_, body) = ask(&mut stream, "/").await;
        assert_eq!(body, format!("{:?}", Some(ours)));
    })
    .await;
}

/// What makes a service for each connection may take its time, and fail.
#[tokio::test]
async fn a_connection_without_a_service_is_closed_and_the_next_is_served() {
    #[derive(Clone)]
    struct OddOnly(std::sync::Arc<std::sync::atomic::AtomicU32>);

    impl Service<Peer> for OddOnly {
        type Response = Router;
        type Error = &'static str;
        type Future = std::pin::Pin<
            Box<dyn std::future::Future<Output = Result<Router, &'static str>> + Send>,
        >;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), &'static str>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Peer) -> Self::Future {
            let number = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::pin(async move {
                tokio::task::yield_now().await;
                if number.is_multiple_of(2) {
                    return Err("no service for you");
                }
                Ok(whoami())
            })
        }
    }

    let serve = |app: &mut App, on| drop(app.http(on, OddOnly(std::sync::Arc::default())));
    with_server(serve, async |address| {
        let mut refused = connect(address).await;
        let _ = refused
            .write_all(b"GET /info HTTP/1.1\r\nhost: x\r\n\r\n")
            .await;
        let mut answer = Vec::new();
        // Its request was not read, so the kernel may say it with a reset.
        let _ = refused.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
        see(address).await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_of_any_protocol_has_addresses() {
    let serve = |app: &mut App, on| {
        drop(app.tcp(on, async |mut conn: adieu::net::Conn| {
            let line = format!("{:?} {:?}", conn.peer_addr(), conn.local_addr());
            conn.write_all(line.as_bytes()).await
        }));
    };
    with_server(serve, async |address| {
        let mut stream = connect(address).await;
        let ours = stream.local_addr().expect("an address");
        let mut said = String::new();
        stream.read_to_string(&mut said).await.expect("a line");
        assert_eq!(said, format!("{:?} {:?}", Some(ours), Some(address)));
    })
    .await;
}

/// A client of a Unix socket has no address, and the server makes none up.
#[tokio::test]
async fn a_client_of_a_unix_socket_has_no_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let serving =
        scope("peers")
            .stop_when(async { drop(is_over.await) })
            .run(async |app: &mut App| {
                let listener = app
                    .listen("web", format!("unix:{}", path.display()))
                    .await?;
                app.http(listener, whoami());
                Ok(())
            });
    let talking = async {
        let mut stream = loop {
            match tokio::net::UnixStream::connect(&path).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let (_, peer) = ask(&mut stream, "/peer").await;
        assert_eq!(peer, "None None");
        let (status, _) = ask(&mut stream, "/info").await;
        assert!(status.contains("500"), "{status}");
        drop(over);
    };
    let (report, ()) = tokio::join!(serving, talking);
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// As a test of the program's own does it: no server, no run.
#[tokio::test]
async fn a_router_can_be_called_without_a_server() {
    let request = |path: &str| {
        axum::http::Request::get(path)
            .body(axum::body::Body::empty())
            .expect("a request")
    };
    let text = async |mut router: Router, request| {
        let answer = Service::<axum::http::Request<axum::body::Body>>::call(&mut router, request)
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1_000).await;
        let body = String::from_utf8(body.expect("a body").to_vec()).expect("text");
        (status, body)
    };
    let (status, why) = text(whoami(), request("/peer")).await;
    assert_eq!(status, 500);
    assert!(why.contains("Peer::new"), "{why}");
    assert_eq!(
        text(whoami(), request("/both")).await,
        (200, "false false".to_owned())
    );
    let peer = Peer::new("192.0.2.7:80".parse().expect("an address"));
    let (status, said) = text(whoami().layer(Extension(peer)), request("/peer")).await;
    assert_eq!((status, said.as_str()), (200, "Some(192.0.2.7:80) None"));
}
