//! The PROXY protocol: whose headers are believed, and what handlers see then.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use adieu::http::{Limits, Peer};
use adieu::net::{Conn, ProxyProtocol};
use adieu::{App, Report, scope};
use axum::extract::ConnectInfo;
use axum::{Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::client::{get as ask, read_response};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
/// A header of version 2, with an extension of five bytes.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x01\xbb\x04\x00\x05hello";
/// The proxy's own connection, a health check say.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
const GET: &[u8] = b"GET /info HTTP/1.1\r\nhost: x\r\n\r\n";

fn loopback() -> ProxyProtocol {
    ProxyProtocol::trusting(["127.0.0.0/8"]).expect("a network")
}

/// Serves behind proxies, lets `client` talk to it, and stops; what the client has seen, and the report.
async fn behind<T>(
    proxies: ProxyProtocol,
    limits: Limits,
    client: impl AsyncFnOnce(SocketAddr) -> T,
) -> (T, Report) {
    let (listens, is_listening) = oneshot::channel();
    let (over, is_over) = oneshot::channel::<()>();
    let serving = scope("proxied")
        .stop_when(async { drop(is_over.await) })
        .run(async |app: &mut App| {
            let listener = app.listen("web", "127.0.0.1:0").await?;
            let address = listener.local_addr().expect("an address");
            let listener = listener.proxy_protocol(proxies).on_listening(move |_| {
                let _ = listens.send(address);
            });
            let info = get(async |ConnectInfo(addr): ConnectInfo<SocketAddr>| addr.to_string());
            let peer = get(async |peer: Peer| {
                format!(
                    "{:?} {:?} {:?}",
                    peer.addr(),
                    peer.local_addr(),
                    peer.proxy_addr()
                )
            });
            let router = Router::new().route("/info", info).route("/peer", peer);
            app.http(listener, router).limits(limits);
            Ok(())
        });
    let talking = async {
        let said = client(is_listening.await.expect("setup runs")).await;
        drop(over);
        said
    };
    let (report, said) = tokio::join!(serving, talking);
    assert_eq!(report.exit_code(), 0, "{report}");
    (said, report)
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("it listens")
}

/// Everything that the server sends to one that begins like this.
async fn sent_to(address: SocketAddr, begin: &[u8]) -> String {
    let mut stream = connect(address).await;
    let _ = stream.write_all(begin).await;
    let mut said = Vec::new();
    // What it has not read makes a reset of its close.
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8(said).expect("text")
}

#[tokio::test]
async fn handlers_see_the_client_and_not_the_proxy() {
    let see = async |address| {
        for header in [V1, V2] {
            let mut stream = connect(address).await;
            let ours = stream.local_addr().expect("an address");
            // The request comes in one piece with the header.
            stream
                .write_all(&[header, GET].concat())
                .await
                .expect("it reads");
            assert_eq!(read_response(&mut stream).await.1, "192.0.2.7:4711");
            let (_, peer) = ask(&mut stream, "/peer").await;
            let said = format!("Some(192.0.2.7:4711) Some(198.51.100.1:443) Some({ours})");
            assert_eq!(peer, said);
        }
    };
    let ((), _) = behind(loopback(), Limits::default(), see).await;
}

#[tokio::test]
async fn the_proxys_own_connection_has_its_own_address() {
    let see = async |address| {
        for header in [LOCAL, b"PROXY UNKNOWN\r\n"] {
            let mut stream = connect(address).await;
            let ours = stream.local_addr().expect("an address");
            stream.write_all(header).await.expect("it reads");
            let (_, peer) = ask(&mut stream, "/peer").await;
            assert_eq!(peer, format!("Some({ours}) Some({address}) None"));
        }
    };
    let ((), _) = behind(loopback(), Limits::default(), see).await;
}

#[tokio::test]
async fn a_header_of_an_untrusted_client_is_not_believed() {
    let elsewhere = ProxyProtocol::trusting(["192.0.2.0/24"]).expect("a network");
    let see = async |address| sent_to(address, &[V1, GET].concat()).await;
    let (said, report) = behind(elsewhere, Limits::default(), see).await;
    assert_eq!(said, "");
    let report = report.to_string();
    let closed = "closed 1 connection(s) from a source that is not trusted with the PROXY protocol";
    assert!(report.contains(closed), "{report}");
}

#[tokio::test]
async fn a_trusted_source_has_to_send_a_header() {
    let see = async |address| {
        let bad_length = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n";
        for begin in [GET, bad_length] {
            assert_eq!(sent_to(address, &[begin, GET].concat()).await, "");
        }
    };
    let ((), report) = behind(loopback(), Limits::default(), see).await;
    let report = report.to_string();
    let closed = "closed 2 connection(s) with a malformed PROXY header";
    assert!(report.contains(closed), "{report}");
}

#[tokio::test]
async fn a_header_that_does_not_come_has_the_time_of_the_handshake() {
    let limits = Limits::default().handshake(Duration::from_millis(50));
    let see = async |address| sent_to(address, &V2[..20]).await;
    let (said, report) = behind(loopback(), limits, see).await;
    assert_eq!(said, "");
    let report = report.to_string();
    let closed = "closed 1 connection(s) without a whole PROXY header";
    assert!(report.contains(closed), "{report}");
}

/// The kubelet asks without a header.
#[tokio::test]
async fn direct_sources_are_served_as_they_are() {
    let proxies = ProxyProtocol::trusting(["127.0.0.0/8"])
        .and_then(|proxies| proxies.direct(["127.0.0.1"]))
        .expect("networks");
    let see = async |address| {
        let mut stream = connect(address).await;
        let ours = stream.local_addr().expect("an address");
        let (_, peer) = ask(&mut stream, "/peer").await;
        assert_eq!(peer, format!("Some({ours}) Some({address}) None"));
    };
    let ((), _) = behind(proxies, Limits::default(), see).await;
}

#[tokio::test]
async fn handlers_of_connections_see_the_client() {
    let (listens, is_listening) = oneshot::channel();
    let (over, is_over) = oneshot::channel::<()>();
    let serving = scope("proxied")
        .stop_when(async { drop(is_over.await) })
        .run(async |app: &mut App| {
            let listener = app.listen("echo", "127.0.0.1:0").await?;
            let address = listener.local_addr().expect("an address");
            let listener = listener.proxy_protocol(loopback()).on_listening(move |_| {
                let _ = listens.send(address);
            });
            app.tcp(listener, async |mut conn: Conn| {
                let client = (conn.peer_addr(), conn.local_addr(), conn.proxy_addr());
                let mut line = [0; 5];
                conn.read_exact(&mut line).await?;
                let line = String::from_utf8_lossy(&line);
                conn.write_all(format!("{line} {client:?}").as_bytes())
                    .await
            });
            Ok(())
        });
    let talking = async {
        let address = is_listening.await.expect("setup runs");
        let mut stream = connect(address).await;
        let ours = stream.local_addr().expect("an address");
        stream
            .write_all(&[V2, b"hello"].concat())
            .await
            .expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).await.expect("a line");
        let client = "(Some(192.0.2.7:4711), Some(198.51.100.1:443)";
        assert_eq!(said, format!("hello {client}, Some({ours}))"));
        assert_eq!(sent_to(address, b"hello").await, "");
        drop(over);
    };
    let (report, ()) = tokio::join!(serving, talking);
    assert_eq!(report.exit_code(), 0, "{report}");
    let report = report.to_string();
    assert!(report.contains("with a malformed PROXY header"), "{report}");
}

/// A client that has sent half a header does not hold a stop.
#[tokio::test]
async fn half_a_header_is_closed_in_the_stop() {
    let mut held = None;
    let see = async |address| {
        let mut stream = connect(address).await;
        stream.write_all(&V1[..20]).await.expect("it reads");
        held = Some(stream);
    };
    let limits = Limits::default().patience(Duration::from_millis(10));
    let ((), _) = behind(loopback(), limits, see).await;
    let mut said = Vec::new();
    let _ = held.expect("a connection").read_to_end(&mut said).await;
    assert_eq!(said, b"");
}

#[tokio::test]
async fn serve_takes_it_as_well() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let (over, is_over) = oneshot::channel::<()>();
    let info = get(async |ConnectInfo(addr): ConnectInfo<SocketAddr>| addr.to_string());
    let serving = adieu::serve(listener, Router::new().route("/info", info))
        .proxy_protocol(loopback())
        .with_graceful_shutdown(async { drop(is_over.await) });
    let talking = async {
        let mut stream = connect(address).await;
        stream.write_all(V1).await.expect("it reads");
        let (_, info) = ask(&mut stream, "/info").await;
        assert_eq!(info, "192.0.2.7:4711");
        drop(over);
    };
    let (drained, ()) = tokio::join!(serving.into_future(), talking);
    assert!(drained.expect("it served").cut.is_empty());
}

#[test]
fn sources_that_are_none_are_named() {
    let says = |result: Result<ProxyProtocol, adieu::Error>, words: &str| {
        let error = result.expect_err("it is not a source").to_string();
        assert!(error.contains(words), "{error}");
    };
    says(
        ProxyProtocol::trusting(["10.0.0.0/8", "balancer"]),
        "`balancer`",
    );
    says(loopback().direct(["10.0.0.0/40"]), "`10.0.0.0/40`");
    says(ProxyProtocol::trusting::<&str>([]), "trusts no source");
}
