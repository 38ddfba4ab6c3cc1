//! Sockets at the start and at the end of a service: taken ports, stale and live socket files.
#![cfg(all(feature = "axum", unix))]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adieu::component::ComponentStatus;
use adieu::report::Outcome;
use adieu::{App, Report, scope};
use axum::{Router, routing::get};
use tokio::sync::Notify;

async fn serve(path: PathBuf, meanwhile: impl FnOnce(&Path) + Send + 'static) -> Report {
    scope("sockets")
        .run(async |app: &mut App| {
            let listener = app
                .listen("web", format!("unix:{}", path.display()))
                .await?;
            app.http(listener, Router::new().route("/", get(async || "hello\n")));
            let (handle, path) = (app.shutdown_handle(), path.clone());
            std::thread::spawn(move || {
                meanwhile(&path);
                handle.stop("the test is over");
            });
            Ok(())
        })
        .await
}

/// Waits until the socket listens, which is a moment after `setup`.
fn connect(path: &Path) -> UnixStream {
    loop {
        if let Ok(stream) = UnixStream::connect(path) {
            return stream;
        }
        std::thread::yield_now();
    }
}

fn ask(path: &Path) {
    let answer = ask_for(path, "/");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

fn ask_for(path: &Path, what: &str) -> String {
    let mut stream = connect(path);
    let request = format!("GET {what} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_socket_file_is_replaced_and_the_new_one_removed_at_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    // A listener that is gone leaves its file.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    let report = serve(path.clone(), ask).await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(!path.exists());
    assert!(
        report
            .to_json()
            .contains("socket file removed, accept queue drained, listener closed")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_socket_file_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let _other = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let report = serve(path.clone(), |_| {}).await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let text = report.to_string();
    assert!(text.contains("web.sock"), "{text}");
    let holder = format!("(pid {})", std::process::id());
    assert!(text.contains(&holder), "{text}");
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("orders.db");
    std::fs::write(&path, "orders").expect("a file");
    let report = serve(path.clone(), |_| {}).await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let text = report.to_string();
    assert!(text.contains("is not a socket"), "{text}");
    assert_eq!(std::fs::read(&path).expect("it is there"), b"orders");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_file_does_not_outlive_a_setup_that_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let report = scope("sockets")
        .run(async |app: &mut App| {
            let _listener = app
                .listen("web", format!("unix:{}", path.display()))
                .await?;
            assert!(path.exists());
            Err("on second thoughts".into())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_an_error_that_names_it_and_its_holder() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    let report = scope("sockets")
        .run(async |app: &mut App| {
            let listener = app.listen("web", address.clone()).await?;
            app.http(listener, Router::new());
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let text = report.to_string();
    assert!(text.contains(&address), "{text}");
    assert!(
        text.contains(&format!("(pid {})", std::process::id())),
        "{text}"
    );
}

/// Two services may bind one port, and the first to listen has it: the other gets the error as if it could not bind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_after_setup_is_the_same_error() {
    let mut others = None;
    let report = scope("sockets")
        .run(async |app: &mut App| {
            let listener = app.listen("web", "127.0.0.1:0").await?;
            let address = listener.local_addr().expect("an address");
            app.http(listener, Router::new());
            others = Some((TcpListener::bind(address)?, address));
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let (_other, address) = others.expect("setup ran");
    let part = report.part("web").expect("it is in the report");
    let failure = part.failure.as_ref().expect("it failed").to_string();
    let whole = format!("`web` cannot listen on {address}, which ");
    let holder = format!("(pid {}) holds: stop that", std::process::id());
    assert!(failure.starts_with(&whole), "{failure}");
    assert!(failure.contains(&holder), "{failure}");
}

/// An invalid address is an error of the configuration (exit code 2); the message says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_cannot_be_says_what_to_do() {
    let long = format!("unix:/tmp/{}", "x".repeat(200));
    for (address, code, words) in [
        ("nonsense", 2, "an address is HOST:PORT"),
        ("127.0.0.1:99999", 2, "an address is HOST:PORT"),
        (
            ":8080",
            2,
            "write 0.0.0.0:8080 for all addresses, or 127.0.0.1:8080",
        ),
        (":99999", 2, "an address is HOST:PORT"),
        ("unix:", 2, "1 to 107 bytes"),
        (&*long, 2, "1 to 107 bytes"),
        ("192.0.2.1:0", 1, "does not have that address"),
        ("unix:/nowhere/at/all", 1, "make its directory first"),
    ] {
        let report = scope("sockets")
            .run(async |app: &mut App| {
                let listener = app.listen("web", address).await?;
                app.http(listener, Router::new());
                Ok(())
            })
            .await;
        let text = report.to_string();
        assert_eq!(report.exit_code(), code, "{text}");
        let whole = format!("`web` cannot listen on {address} (");
        assert!(text.contains(&whole) && text.contains(words), "{text}");
    }
}

/// A second service comes while the first one is bound and does not listen yet: in its `setup`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_starts_keeps_its_socket_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let mut second = None;
    let report = scope("first")
        .run(async |app: &mut App| {
            let address = format!("unix:{}", path.display());
            let listener = app.listen("web", address).await?;
            second = Some(serve(path.clone(), |_| {}).await);
            app.http(listener, Router::new().route("/", get(async || "hello\n")));
            let (handle, path) = (app.shutdown_handle(), path.clone());
            std::thread::spawn(move || {
                ask(&path);
                handle.stop("the test is over");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let second = second.expect("it ran");
    assert_eq!(second.exit_code(), 1, "{second}");
    let text = second.to_string();
    assert!(text.contains("web.sock"), "{text}");
    let holder = format!("(pid {}) holds", std::process::id());
    assert!(text.contains(&holder), "{text}");
    let left: Vec<_> = std::fs::read_dir(&directory)
        .expect("it is there")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The file was removed, and another service has put its own there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_file_of_another_service_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let others = std::sync::Arc::new(std::sync::Mutex::new(None));
    let their = std::sync::Arc::clone(&others);
    let report = serve(path.clone(), move |path| {
        ask(path);
        std::fs::remove_file(path).expect("it is there");
        let other = std::os::unix::net::UnixListener::bind(path).expect("a socket");
        *their.lock().expect("no thread panics with it") = Some(other);
    })
    .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(
        UnixStream::connect(&path).is_ok(),
        "the other can be reached"
    );
}

/// A process that was killed in its start has left its lock file, and the kernel has given up the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_file_that_was_left_behind_is_no_lock() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("web.sock");
    let lock = directory.path().join("web.sock.lock");
    std::fs::write(&lock, "").expect("a file");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let report = serve(path.clone(), ask).await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(!lock.exists());
}

/// Where others may write, a link could lead anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let victim = directory.path().join("victim");
    for link in ["web.sock", "web.sock.lock"] {
        let path = directory.path().join("web.sock");
        std::os::unix::fs::symlink(&victim, directory.path().join(link)).expect("a link");
        let report = serve(path, |_| {}).await;
        assert_eq!(report.exit_code(), 1, "{link}: {report}");
        assert!(!victim.exists(), "{link}");
        std::fs::remove_file(directory.path().join(link)).expect("it is there");
    }
    // A socket of another program without a listener, by another name.
    drop(std::os::unix::net::UnixListener::bind(&victim).expect("a socket"));
    let path = directory.path().join("web.sock");
    std::os::unix::fs::symlink(&victim, &path).expect("a link");
    let report = serve(path, |_| {}).await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(victim.exists());
}

/// The other server of the same service goes on, and what was in flight is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_is_stopped_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (public, internal) = (
        directory.path().join("public"),
        directory.path().join("internal"),
    );
    let (asked, seen) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, held) = (Arc::clone(&asked), Arc::clone(&seen));
    let report = scope("sockets")
        .run(async |app: &mut App| {
            for (name, path) in [("public", &public), ("internal", &internal)] {
                let listener = app.listen(name, format!("unix:{}", path.display())).await?;
                let (tell, held) = (Arc::clone(&tell), Arc::clone(&held));
                let slow = async move || {
                    tell.notify_one();
                    held.notified().await;
                    "slow\n"
                };
                let router = Router::new()
                    .route("/", get(async || "hello\n"))
                    .route("/slow", get(slow));
                app.http(listener, router);
            }
            let (handle, server) = (app.shutdown_handle(), app.component("public"));
            let (public, internal) = (public.clone(), internal.clone());
            app.task("script", |_stop| async move {
                let server = server.expect("it is registered");
                let theirs = public.clone();
                let in_flight = tokio::task::spawn_blocking(move || ask_for(&theirs, "/slow"));
                asked.notified().await;
                server.stop();
                assert_eq!(server.status(), ComponentStatus::Stopping);
                seen.notify_one();
                let answer = in_flight.await.expect("no panic");
                assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
                assert_eq!(server.done().await, Outcome::Finished);
                assert!(UnixStream::connect(&public).is_err(), "it is closed");
                let asking = tokio::task::spawn_blocking(move || ask(&internal));
                asking.await.expect("the other one answers");
                handle.stop("the test is over");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}
