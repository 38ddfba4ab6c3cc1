//! SIGHUP on a server with TLS: the new certificate and the new message or neither, and no connection lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{CertifiedKey, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

/// Far more than any test needs: only a broken promise gets here.
const PATIENCE: Duration = Duration::from_secs(30);

struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the file can be written");
    }

    /// A new certificate for `localhost` with its key, in place of the one before.
    fn new_certificate(&self) -> CertificateDer<'static> {
        let made = certificate();
        self.put(&made);
        made.cert.der().clone()
    }

    /// The certificate that the next start or reload finds.
    fn put(&self, made: &CertifiedKey<KeyPair>) {
        self.write("cert.pem", &made.cert.pem());
        self.write("key.pem", &made.signing_key.serialize_pem());
    }
}

fn certificate() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .expect("a certificate can be made")
}

struct Web {
    child: Child,
    lines: Receiver<String>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Web {
    fn start(files: &Files) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_example-web"))
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--grace", "20s"])
            .arg("--tls-cert")
            .arg(files.path("cert.pem"))
            .arg("--tls-key")
            .arg(files.path("key.pem"))
            .arg("--motd")
            .arg(files.path("motd"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-web starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut address = |prefix: &str| {
            let line = stdout.next().expect("a line").expect("text");
            let address = line.strip_prefix(prefix);
            address.expect(&line).parse().expect("an address")
        };
        let (admin, address) = (address("admin on "), address("listening on "));
        let stderr = child.stderr.take().expect("a pipe");
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("{line}");
                let _ = tell.send(line);
            }
        });
        let web = Self {
            child,
            lines,
            address,
            admin,
        };
        let begun = Instant::now();
        while web.health()["ready"] != true {
            assert!(begun.elapsed() < PATIENCE, "readiness never came");
            thread::yield_now();
        }
        web
    }

    fn wait_for(&self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("`{text}` never came"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is not reaped yet");
    }

    /// Reloads, and gives the line that says how it went.
    fn reload(&self) -> String {
        self.signal(Signal::HUP);
        self.wait_for("reload")
    }

    fn connect(&self, trusted: &CertificateDer<'static>) -> Client {
        Client::connect(self.address, trusted)
    }

    fn health(&self) -> serde_json::Value {
        let mut socket = TcpStream::connect(self.admin).expect("the admin port listens");
        socket
            .write_all(b"GET /health HTTP/1.0\r\n\r\n")
            .expect("it reads");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("it answers");
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).expect("JSON")
    }

    fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("it can be waited for");
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn connect(address: SocketAddr, trusted: &CertificateDer<'static>) -> Self {
        Self::trusting(address, std::slice::from_ref(trusted))
    }

    fn trusting(address: SocketAddr, trusted: &[CertificateDer<'static>]) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in trusted {
            roots.add(certificate.clone()).expect("a certificate");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the versions are there")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(Arc::new(config), name).expect("a connection");
        let socket = TcpStream::connect(address).expect("it listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket has timeouts");
        Self(StreamOwned::new(tls, socket))
    }

    /// The message of the day, on this connection, which stays open.
    fn motd(&mut self) -> std::io::Result<String> {
        self.0
            .write_all(b"GET /motd HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\n.\n") {
            self.0.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer);
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        Ok(body.trim_end_matches("\n.\n").to_owned())
    }
}

/// Each handshake has one certificate or the other, whole.
#[test]
fn clients_that_come_during_a_reload_are_served() {
    const RELOADS: usize = 10;
    let files = Files::new();
    // A client that has connected may be served any of them: all are trusted from the beginning.
    let certificates: Vec<_> = (0..=RELOADS).map(|_| certificate()).collect();
    let trusted: Vec<_> = certificates
        .iter()
        .map(|it| it.cert.der().clone())
        .collect();
    files.put(&certificates[0]);
    files.write("motd", "one\n.\n");
    let web = Web::start(&files);
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut client = Client::trusting(web.address, &trusted);
                    let motd = client.motd().expect("a handshake and an answer");
                    assert_eq!(motd, "one");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for next in &certificates[1..] {
            // Some are served between any two.
            let before = served.load(Ordering::Relaxed);
            while served.load(Ordering::Relaxed) < before + 5 {
                thread::yield_now();
            }
            files.put(next);
            let line = web.reload();
            assert!(line.contains("reloaded motd, web tls"), "{line}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    web.stop();
}

#[test]
fn a_new_certificate_is_served_and_no_connection_is_dropped() {
    let files = Files::new();
    let old = files.new_certificate();
    files.write("motd", "one\n.\n");
    let web = Web::start(&files);
    let mut before = web.connect(&old);
    assert_eq!(before.motd().expect("an answer"), "one");

    let new = files.new_certificate();
    files.write("motd", "two\n.\n");
    let line = web.reload();
    assert!(line.contains("reloaded motd, web tls"), "{line}");

    assert_eq!(before.motd().expect("the old connection lives"), "two");
    assert_eq!(web.connect(&new).motd().expect("the new one"), "two");
    assert!(web.connect(&old).motd().is_err());
    let reload = &web.health()["reload"];
    assert_eq!(reload["applied"], 1, "{reload}");
    assert_eq!(reload["last"]["outcome"], "applied", "{reload}");
    web.stop();
}

#[test]
fn a_bad_certificate_is_refused_with_everything_else_and_named() {
    let files = Files::new();
    let old = files.new_certificate();
    files.write("motd", "one\n.\n");
    let web = Web::start(&files);
    let mut before = web.connect(&old);
    assert_eq!(before.motd().expect("an answer"), "one");

    // The new key does not belong to the certificate that is still there.
    let certificate = std::fs::read_to_string(files.path("cert.pem")).expect("a certificate");
    files.new_certificate();
    files.write("cert.pem", &certificate);
    files.write("motd", "two\n.\n");
    let line = web.reload();
    assert!(line.contains("reload refused by web tls"), "{line}");
    assert!(line.contains("key.pem"), "{line}");

    assert_eq!(before.motd().expect("the old connection lives"), "one");
    assert_eq!(web.connect(&old).motd().expect("as before"), "one");
    let reload = &web.health()["reload"];
    assert_eq!(reload["refused"], 1, "{reload}");
    assert_eq!(reload["last"]["refused_by"], "web tls", "{reload}");
    assert_eq!(reload["sources"][1], "web tls", "{reload}");

    // A refusal of the message keeps the certificate, too.
    let new = files.new_certificate();
    files.write("motd", "\n");
    let line = web.reload();
    assert!(line.contains("reload refused by motd"), "{line}");
    assert_eq!(web.connect(&old).motd().expect("as before"), "one");
    files.write("motd", "three\n.\n");
    web.reload();
    assert_eq!(web.connect(&new).motd().expect("the new one"), "three");
    web.stop();
}

#[test]
fn reloads_under_load_lose_no_request() {
    let files = Files::new();
    let certificate = files.new_certificate();
    files.write("motd", "one\n.\n");
    let web = Web::start(&files);
    thread::scope(|threads| {
        let asking: Vec<_> = (0..4)
            .map(|_| {
                let (address, certificate) = (web.address, &certificate);
                threads.spawn(move || {
                    let mut client = Client::connect(address, certificate);
                    (0..200)
                        .filter(|_| client.motd().is_ok_and(|text| text == "one"))
                        .count()
                })
            })
            .collect();
        for _ in 0..20 {
            web.reload();
        }
        for asked in asking {
            assert_eq!(asked.join().expect("a client"), 200);
        }
    });
    web.stop();
}
