//! Through networks with delay.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adieu_load::{Load, Mode, Target};
use adieu_testkit::{DelayNetwork, iterations};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{PATIENCE, Server};

const INSIDE: &str = "slow_network::inside_a_network_of_its_own";

#[test]
fn nothing_is_lost_over_a_slow_network() {
    run_alone(INSIDE);
}

/// Runs a test that is ignored otherwise in a network of its own.
fn run_alone(test: &str) {
    let this = std::env::current_exe().unwrap();
    let mut probe = DelayNetwork::alone();
    match probe.arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            return fixture_skip::not_possible(format!("no network namespace can be made: {why}"));
        }
        Err(error) => return fixture_skip::missing(format!("unshare: {error}")),
    }
    let output = DelayNetwork::alone()
        .arg(this)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("1 passed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a network of its own; the test above starts it in one"]
async fn inside_a_network_of_its_own() {
    if let Err(error) = DelayNetwork::start(Duration::from_millis(10)) {
        return fixture_skip::not_possible(format!("no TUN device can be made: {error}"));
    }
    let listen = SocketAddr::new(IpAddr::V4(DelayNetwork::NEAR), 0).to_string();
    let crowds = [(Mode::KeepAlive, 64), (Mode::Fresh, 128), (Mode::Mixed, 32)];
    for (mode, clients) in crowds.repeat(iterations(1, 50)) {
        let server = Server::listening_on(&listen, false, &[]).await;
        let far = SocketAddr::new(IpAddr::V4(DelayNetwork::FAR), server.address.port());
        let load = Load::http1(Target::tcp(far), "/")
            .mode(mode)
            .clients(clients);
        let (tally, end) = server.stop_under(load, 400).await;
        println!(
            "{mode:?}, {clients} clients, 20 ms: {tally}, gone after {:?}",
            end.took
        );
        assert_eq!((tally.lost(), tally.unsent), (0, 0), "{mode:?}: {tally}");
    }
}

const HANDSHAKE: &str = "slow_network::inside_a_network_with_slow_handshakes";

/// The last packet of a handshake needs 200 ms to the server, which is longer than any quiet time.
#[test]
fn a_handshake_that_was_under_way_at_the_stop_is_served() {
    run_alone(HANDSHAKE);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a network of its own; the test above starts it in one"]
async fn inside_a_network_with_slow_handshakes() {
    if let Err(error) = DelayNetwork::start(Duration::from_millis(200)) {
        return fixture_skip::not_possible(format!("no TUN device can be made: {error}"));
    }
    let listen = SocketAddr::new(IpAddr::V4(DelayNetwork::NEAR), 0).to_string();
    let mut server = Server::listening_on(&listen, false, &[]).await;
    let far = SocketAddr::new(IpAddr::V4(DelayNetwork::FAR), server.address.port());
    let mut client = TcpStream::connect(far).await.expect("it listens");
    // The client has a connection; the server sees it after the stop.
    server.subject.terminate().expect("it runs");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .expect("it is connected");
    let mut answer = String::new();
    let read = client.read_to_string(&mut answer);
    timeout(PATIENCE, read)
        .await
        .expect("an end")
        .expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    server.end().await;
}
