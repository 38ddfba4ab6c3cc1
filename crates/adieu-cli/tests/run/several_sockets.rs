//! A command with more than one socket.

use rustix::process::Signal;

use crate::support::Wrapper;

/// The second generation takes one socket of two.
const SERVER: &str = r#"
import os, signal, socket, threading
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
def serve(number):
    listener = socket.socket(fileno=number)
    while True:
        listener.accept()[0].close()
numbers = [3] if os.environ["SERVER_STARTER_GENERATION"] == "2" else [3, 4]
for number in numbers:
    threading.Thread(target=serve, args=(number,), daemon=True).start()
signal.pause()
"#;

/// A new process has to take all sockets that the old one serves: connections to the others would hang.
#[tokio::test]
async fn one_that_takes_fewer_sockets_is_not_ready() {
    let options = [
        "--listen",
        "tcp:127.0.0.1:0",
        "--listen",
        "tcp:127.0.0.1:0",
        "--ready-timeout",
        "2s",
    ];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::HUP);
    let said = wrapper.says("the new process (pid ").await;
    assert!(said.contains("is not ready after 2s"), "{said}");
    assert!(said.ends_with("the old one stays"), "{said}");
    wrapper.signal(Signal::HUP);
    wrapper.says(" serves, pid ").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

/// The first one has no old process to compare with: a command may leave a socket alone.
#[tokio::test]
async fn the_first_may_take_one_of_two() {
    let options = ["--listen", "tcp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0"];
    let one = SERVER.replace("== \"2\"", "!= \"\"");
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &one]);
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::HUP);
    wrapper.says(" serves, pid ").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}
