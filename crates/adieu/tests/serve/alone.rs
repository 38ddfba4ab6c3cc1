//! `adieu::serve(listener, router)` with a stop of the program's own; signals are for child processes.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use adieu::Drained;
use axum::extract::ConnectInfo;
use axum::{Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::client::get as ask;

async fn local() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

#[tokio::test]
async fn it_serves_in_a_task_of_its_own_until_the_token_is_cancelled() {
    let (listener, address) = local().await;
    let token = CancellationToken::new();
    let serving = adieu::serve(listener, hello())
        .with_graceful_shutdown(token.clone().cancelled_owned())
        .grace(Duration::from_secs(25));
    assert_eq!(serving.local_addr(), Some(address));
    let serving = tokio::spawn(serving.into_future());
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let (status, body) = ask(&mut stream, "/").await;
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 200 OK", "hello")
    );
    token.cancel();
    let drained = serving.await.expect("no panic").expect("it served");
    assert_eq!((drained.closed, drained.cut.len()), (1, 0), "{drained}");
    assert_eq!(drained.report.exit_code(), 0);
    assert!(drained.to_string().contains("nothing cut"), "{drained}");
    let refused = TcpStream::connect(address).await;
    assert!(refused.is_err(), "the listener is gone");
}

/// The request in flight when the stop begins is answered, and counts.
#[tokio::test]
async fn what_is_under_way_is_answered() {
    let (listener, address) = local().await;
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let (begun, goes_on) = (once(begun), once(goes_on));
    let slow = get(async move || {
        let _ = begun().send(());
        let _ = goes_on().await;
        "done"
    });
    let router = Router::new().route("/slow", slow);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let serving = adieu::serve(listener, router).with_graceful_shutdown(async move {
        stopping.cancelled_owned().await;
        // The stop is on its way, and the handler may go on.
        let _ = go_on.send(());
    });
    let client = async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let asking = ask(&mut stream, "/slow");
        let stopping = async {
            has_begun.await.expect("the handler runs");
            stop.cancel();
        };
        tokio::join!(asking, stopping).0
    };
    let (drained, (status, body)) = tokio::join!(serving.into_future(), client);
    let drained = drained.expect("it served");
    assert!(status.contains("200"), "{status}");
    assert_eq!(body, "done");
    assert!(drained.cut.is_empty(), "{drained}");
}

/// A handler is called once here, and closures of handlers must be `Clone`.
fn once<T: Send + 'static>(value: T) -> impl Fn() -> T + Clone + Send + Sync + 'static {
    let value = std::sync::Arc::new(std::sync::Mutex::new(Some(value)));
    move || {
        let mut value = value.lock().expect("no panic");
        value.take().expect("it is called once")
    }
}

#[tokio::test]
async fn what_is_cut_is_named() {
    let (listener, address) = local().await;
    let (begun, has_begun) = oneshot::channel();
    let begun = once(begun);
    let never = get(async move || -> &'static str {
        let _ = begun().send(());
        std::future::pending().await
    });
    let router = Router::new().route("/never", never);
    let serving = adieu::serve(listener, router)
        .with_graceful_shutdown(async { drop(has_begun.await) })
        .grace(Duration::from_millis(300));
    let client = async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET /never?token=secret HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.expect("it reads");
        let _ = stream.read_to_end(&mut Vec::new()).await;
        stream.local_addr().expect("an address")
    };
    let (drained, ours) = tokio::join!(serving.into_future(), client);
    let drained = drained.expect("it served");
    let names: Vec<_> = drained.cut.iter().map(|loss| loss.name.as_str()).collect();
    assert_eq!(names, [format!("GET /never from {ours}")]);
    assert_eq!(drained.report.exit_code(), 3);
    assert!(
        drained.to_string().contains("cut: GET /never from"),
        "{drained}"
    );
}

#[tokio::test]
async fn connection_info_and_listeners_of_every_kind_are_taken() {
    let router = || {
        Router::new().route(
            "/",
            get(async |ConnectInfo(addr): ConnectInfo<SocketAddr>| addr.to_string()),
        )
    };
    let std = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = std.local_addr().expect("an address");
    let service = router().into_make_service_with_connect_info::<SocketAddr>();
    let (stop, stops) = oneshot::channel::<()>();
    let serving = adieu::serve(std, service).with_graceful_shutdown(async { drop(stops.await) });
    let client = async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let (_, said) = ask(&mut stream, "/").await;
        assert_eq!(said, stream.local_addr().expect("an address").to_string());
        drop(stop);
    };
    let (drained, ()) = tokio::join!(serving.into_future(), client);
    drained.expect("it served");

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let unix = UnixListener::bind(&path).expect("a socket");
    let (stop, stops) = oneshot::channel::<()>();
    let serving = adieu::serve(unix, hello()).with_graceful_shutdown(async { drop(stops.await) });
    let client = async {
        let mut stream = UnixStream::connect(&path).await.expect("it listens");
        let (_, said) = ask(&mut stream, "/").await;
        assert_eq!(said, "hello");
        drop(stop);
    };
    let (drained, ()) = tokio::join!(serving.into_future(), client);
    drained.expect("it served");
    assert!(path.exists(), "the file is the program's");
}

#[tokio::test]
async fn what_cannot_be_served_on_is_an_error_that_says_why() {
    let why = async |listener: std::net::TcpListener| {
        let result: Result<Drained, _> = adieu::serve(listener, hello())
            .with_graceful_shutdown(async {})
            .await;
        result.expect_err("it cannot be").to_string()
    };
    let socket = |kind| {
        let domain = socket2::Domain::IPV4;
        let socket = socket2::Socket::new(domain, kind, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a port");
        socket
    };
    let bound = why(socket(socket2::Type::STREAM).into()).await;
    assert!(bound.contains("it is not listening"), "{bound}");
    let udp = why(socket(socket2::Type::DGRAM).into()).await;
    assert!(udp.contains("not a stream socket"), "{udp}");
    let (listener, address) = local().await;
    let _accepted = tokio::spawn(async move { listener.accept().await });
    let connected = std::net::TcpStream::connect(address).expect("it listens");
    let connected = why(socket2::Socket::from(connected).into()).await;
    assert!(connected.contains("it is a connection"), "{connected}");

    let (listener, _) = local().await;
    let result = adieu::serve(listener, hello())
        .with_graceful_shutdown(async {})
        .grace(Duration::ZERO)
        .await;
    let why = result.expect_err("no time at all").to_string();
    assert!(why.contains("a grace of zero"), "{why}");
}

/// Nothing of the process is needed for a stop of the program's own, and nothing is left of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_at_once_know_nothing_of_each_other() {
    let serve = async || {
        let (listener, address) = local().await;
        let (stop, stops) = oneshot::channel::<()>();
        let serving =
            adieu::serve(listener, hello()).with_graceful_shutdown(async { drop(stops.await) });
        (tokio::spawn(serving.into_future()), address, stop)
    };
    let (first, _, stop) = serve().await;
    let (second, address, other) = serve().await;
    drop(stop);
    first.await.expect("no panic").expect("it served");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    assert_eq!(ask(&mut stream, "/").await.1, "hello");
    drop(other);
    let drained = second.await.expect("no panic").expect("it served");
    assert!(drained.cut.is_empty(), "{drained}");
}
