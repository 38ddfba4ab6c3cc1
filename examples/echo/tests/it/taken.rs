//! The port is taken, and the error says by whom.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use crate::server::Server;

/// What a server says that wants to listen there.
fn said(address: SocketAddr) -> String {
    let second = Command::new(env!("CARGO_BIN_EXE_example-echo"))
        .args(["--listen", &address.to_string()])
        .output()
        .expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    String::from_utf8_lossy(&second.stderr).into_owned()
}

/// One port on two addresses of the machine, each with another process behind it.
#[tokio::test]
async fn the_holder_of_the_address_is_named_and_not_its_neighbour() {
    let mut server = Server::start().await;
    let neighbour = SocketAddr::from(([127, 0, 0, 2], server.address.port()));
    let _ours = TcpListener::bind(neighbour).expect("no other process is there");
    for (address, pid) in [
        (server.address, server.subject.pid().to_string()),
        (neighbour, std::process::id().to_string()),
    ] {
        let said = said(address);
        assert!(said.contains(&format!("(pid {pid})")), "{said}");
    }
    server.subject.terminate().unwrap();
    server.end().await;
}
