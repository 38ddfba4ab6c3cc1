//! TLS as the program configures it: client certificates, a certificate for each name, and one that comes anew.
//!
//! One test sends this process a signal; each has a process of its own.
#![cfg(all(feature = "axum", feature = "tls", unix))]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use adieu::http::Peer;
use adieu::net::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use adieu::net::rustls::server::{ResolvesServerCertUsingSni, WebPkiClientVerifier};
use adieu::net::rustls::sign::CertifiedKey;
use adieu::net::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use adieu::net::{ProxyProtocol, TlsConfig};
use adieu::report::Notice;
use adieu::{App, scope};
use axum::{Router, routing::get};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An authority of the test, which signs whatever it asks for.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

/// A certificate and its key.
struct Papers {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Papers {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("an authority");
        Self {
            issuer: Issuer::new(params, key),
            roots: Arc::new(roots),
        }
    }

    fn sign(&self, name: &str) -> Papers {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Papers {
            certificate: certificate.der().clone(),
            key: key.serialize_der().into(),
        }
    }

    /// A client, with these papers of its own.
    fn client(&self, papers: Option<&Papers>) -> ClientConfig {
        let client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(Arc::clone(&self.roots));
        match papers {
            None => client.with_no_client_auth(),
            Some(papers) => client
                .with_client_auth_cert(papers.chain(), papers.key())
                .expect("a key"),
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
}

fn serving(papers: &Papers) -> ServerConfig {
    let server = server().with_no_client_auth();
    let server = server.with_single_cert(papers.chain(), papers.key());
    server.expect("a certificate")
}

async fn connect(
    address: SocketAddr,
    client: &ClientConfig,
    name: &'static str,
    before: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(before).await?;
    let connector = TlsConnector::from(Arc::new(client.clone()));
    let name = ServerName::try_from(name).expect("a name");
    connector.connect(name, stream).await
}

/// The certificate that the server has shown.
fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let shown = stream.get_ref().1.peer_certificates();
    shown.expect("a certificate")[0].clone().into_owned()
}

/// All of the answer to a request for `/`, or why there is none.
async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What a handler sees of the client.
fn seen() -> (Router, Arc<Mutex<Vec<Peer>>>) {
    let peers = Arc::<Mutex<Vec<Peer>>>::default();
    let all = Arc::clone(&peers);
    let keep = get(async move |peer: Peer| {
        all.lock().expect("no panic").push(peer);
        "kept"
    });
    (Router::new().route("/", keep), peers)
}

/// Serves with this configuration, lets `client` talk to it, and stops.
async fn with_server(
    config: impl Into<TlsConfig>,
    proxies: Option<ProxyProtocol>,
    router: Router,
    client: impl AsyncFnOnce(SocketAddr),
) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (over, is_over) = oneshot::channel::<()>();
    let mut serving = adieu::serve(listener, router)
        .tls_config(config)
        .with_graceful_shutdown(async { drop(is_over.await) });
    if let Some(proxies) = proxies {
        serving = serving.proxy_protocol(proxies);
    }
    let talking = async {
        client(address).await;
        drop(over);
    };
    let (drained, ()) = tokio::join!(std::future::IntoFuture::into_future(serving), talking);
    let drained = drained.expect("it served");
    assert!(drained.cut.is_empty());
    drained.report.to_string()
}

#[tokio::test]
async fn a_clients_certificate_is_asked_for_and_handlers_see_it() {
    let authority = Authority::new();
    let (papers, theirs) = (authority.sign("localhost"), authority.sign("client.test"));
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&authority.roots), provider());
    let server = server().with_client_cert_verifier(verifier.build().expect("a verifier"));
    let mut config = server
        .with_single_cert(papers.chain(), papers.key())
        .expect("a certificate");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (router, peers) = seen();
    let report = with_server(config, None, router, async |address| {
        let mut client = authority.client(Some(&theirs));
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut stream = connect(address, &client, "localhost", b"")
            .await
            .expect("TLS");
        assert!(ask(&mut stream).await.expect("an answer").ends_with("kept"));
        let peer = peers.lock().expect("no panic").pop().expect("a request");
        let tls = peer.tls().expect("TLS");
        let certificates: Vec<_> = tls.certificates().collect();
        assert_eq!(certificates, [&theirs.certificate[..]]);
        assert_eq!(tls.server_name(), Some("localhost"));
        assert_eq!(tls.alpn_protocol(), Some(&b"http/1.1"[..]));
        // With TLS 1.3 the client sees it when it reads.
        let stream = connect(address, &authority.client(None), "localhost", b"").await;
        let refused = match stream {
            Ok(mut stream) => ask(&mut stream).await.map(drop),
            Err(error) => Err(error),
        };
        let refused = refused.expect_err("it has no certificate").to_string();
        assert!(refused.contains("CertificateRequired"), "{refused}");
    })
    .await;
    let closed = "closed 1 connection(s) whose TLS handshake has failed";
    assert!(report.contains(closed), "{report}");
}

#[tokio::test]
async fn each_name_has_its_certificate() {
    let authority = Authority::new();
    let (one, other) = (authority.sign("one.test"), authority.sign("other.test"));
    let mut names = ResolvesServerCertUsingSni::new();
    for (name, papers) in [("one.test", &one), ("other.test", &other)] {
        let papers = CertifiedKey::from_der(papers.chain(), papers.key(), &provider());
        names.add(name, papers.expect("a key")).expect("a name");
    }
    let config = server()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(names));
    let report = with_server(config, None, seen().0, async |address| {
        let client = authority.client(None);
        for (name, papers) in [("one.test", &one), ("other.test", &other)] {
            let mut stream = connect(address, &client, name, b"").await.expect("TLS");
            assert_eq!(shown(&stream), papers.certificate);
            assert!(ask(&mut stream).await.expect("an answer").ends_with("kept"));
        }
        connect(address, &client, "third.test", b"")
            .await
            .expect_err("no certificate");
    })
    .await;
    let closed = "closed 1 connection(s) whose TLS handshake has failed";
    assert!(report.contains(closed), "{report}");
}

#[tokio::test]
async fn a_proxys_header_comes_before_tls() {
    let authority = Authority::new();
    let config = serving(&authority.sign("localhost"));
    let (router, peers) = seen();
    let proxies = ProxyProtocol::trusting(["127.0.0.1"]).expect("an address");
    let _report = with_server(config, Some(proxies), router, async |address| {
        let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
        let client = authority.client(None);
        let mut stream = connect(address, &client, "localhost", header)
            .await
            .expect("TLS");
        assert!(ask(&mut stream).await.expect("an answer").ends_with("kept"));
        let peer = peers.lock().expect("no panic").pop().expect("a request");
        assert_eq!(peer.addr(), "192.0.2.7:4711".parse().ok());
        assert!(peer.tls().is_some());
    })
    .await;
}

/// A reload that fails keeps what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_brings_another_configuration_for_connections_to_come() {
    let authority = Authority::new();
    let papers = Arc::new([authority.sign("localhost"), authority.sign("localhost")]);
    let (calls, theirs) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&papers));
    let load = move || match theirs.get(calls.fetch_add(1, Relaxed)) {
        Some(papers) => Ok(serving(papers)),
        None => Err("there are no more certificates"),
    };
    let (listens, is_listening) = oneshot::channel();
    let (over, is_over) = oneshot::channel::<()>();
    let (reloaded, mut reloads) = tokio::sync::mpsc::unbounded_channel();
    let serving = scope("tls")
        .signals()
        .stop_when(async { drop(is_over.await) })
        .on_notice(move |notice| {
            let applied = match notice {
                Notice::Reloaded { .. } => true,
                Notice::ReloadRefused { .. } => false,
                _ => return,
            };
            let _ = reloaded.send(applied);
        })
        .run(async move |app: &mut App| {
            let listener = app.listen("web", "127.0.0.1:0");
            let listener = listener.tls_config(TlsConfig::reloaded(load)).await?;
            let address = listener.local_addr().expect("an address");
            let listener = listener.on_listening(move |_| {
                let _ = listens.send(address);
            });
            app.http(listener, seen().0);
            Ok(())
        });
    let talking = async {
        let address = is_listening.await.expect("setup runs");
        let client = authority.client(None);
        let mut first = connect(address, &client, "localhost", b"")
            .await
            .expect("TLS");
        assert_eq!(shown(&first), papers[0].certificate);
        for is_applied in [true, false] {
            let pid = std::process::id().to_string();
            let sent = std::process::Command::new("kill")
                .args(["-HUP", &pid])
                .status();
            assert!(sent.expect("kill is there").success());
            assert_eq!(reloads.recv().await, Some(is_applied));
            let next = connect(address, &client, "localhost", b"")
                .await
                .expect("TLS");
            assert_eq!(shown(&next), papers[1].certificate);
        }
        assert!(ask(&mut first).await.expect("it goes on").ends_with("kept"));
        drop(over);
    };
    let (report, ()) = tokio::join!(serving, talking);
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_had_is_an_error_of_setup() {
    let report = scope("tls")
        .run(async |app: &mut App| {
            let without = || {
                let key = KeyPair::generate().expect("a key").serialize_der();
                let key = PrivateKeyDer::Pkcs8(key.into());
                server()
                    .with_no_client_auth()
                    .with_single_cert(Vec::new(), key)
            };
            let listener = app.listen("web", "127.0.0.1:0");
            let listener = listener.tls_config(TlsConfig::reloaded(without)).await?;
            app.http(listener, Router::new());
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let report = report.to_string();
    assert!(
        report.contains("`web` has no TLS configuration"),
        "{report}"
    );
    assert!(report.contains("no certificates"), "{report}");
}
