//! The ports of the service are fixed. What it does with them is tested by the walk of docs/getting-started.md, in a
//! network namespace of its own.

use std::net::TcpListener;
use std::process::Command;

#[test]
fn a_port_that_is_taken_ends_the_start_and_is_named() {
    // If another program has the port already, it is taken all the same.
    let _taken = TcpListener::bind("0.0.0.0:9100");
    let output = Command::new(env!("CARGO_BIN_EXE_example-kubernetes")).output();
    let output = output.expect("it is built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("9100"), "{said}");
}
