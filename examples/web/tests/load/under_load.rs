//! SIGTERM in the middle of the load.

use adieu_load::{Load, Mode, Target};
use adieu_testkit::iterations;

use crate::server::Server;

type Speak = fn(Target) -> Load;

const HTTP1: Speak = |target| Load::http1(target, "/");
const HTTP2: Speak = |target| Load::http2(target, "/");

/// The modes with their numbers of clients, and how often each is stopped.
fn crowds() -> impl Iterator<Item = (Mode, usize)> {
    [
        (Mode::KeepAlive, 64, iterations(1, 200)),
        (Mode::Fresh, 128, iterations(1, 50)),
        (Mode::Mixed, 32, iterations(1, 50)),
        (Mode::Fresh, 32, iterations(0, 50)),
        (Mode::Mixed, 128, iterations(1, 50)),
    ]
    .into_iter()
    .flat_map(|(mode, clients, stops)| std::iter::repeat_n((mode, clients), stops))
}

/// How clients reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Tcp,
    Tls,
    /// A Unix socket.
    File,
}

use Over::{File, Tcp, Tls};

async fn nothing_is_lost(speak: Speak, over: Over, lame_duck: &str) {
    for (number, (mode, clients)) in crowds().enumerate() {
        let flags = ["--lame-duck", lame_duck];
        let server = match over {
            File => Server::on_a_file(&flags).await,
            _ => Server::start(over == Tls, &flags).await,
        };
        let load = speak(server.target.clone()).mode(mode).clients(clients);
        // At another moment each time.
        let answers = 300 + 217 * (number as u64 % 7);
        let (tally, end) = server.stop_under(load, answers).await;
        let what = format!("{mode:?}, {clients} clients, {over:?}: {tally}");
        println!("{what}, gone after {:?}", end.took);
        assert_eq!(
            (tally.lost(), tally.unsent, tally.failed),
            (0, 0, 0),
            "{what}"
        );
        assert!(tally.answered >= answers, "{what}");
        assert_eq!(tally.refused, clients as u64, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http1() {
    nothing_is_lost(HTTP1, Tcp, "0s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_with_a_lame_duck() {
    nothing_is_lost(HTTP1, Tcp, "1s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_over_tls() {
    nothing_is_lost(HTTP1, Tls, "0s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2() {
    nothing_is_lost(HTTP2, Tcp, "0s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_with_a_lame_duck() {
    nothing_is_lost(HTTP2, Tcp, "1s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_over_tls() {
    nothing_is_lost(HTTP2, Tls, "0s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_over_tls_with_a_lame_duck() {
    nothing_is_lost(HTTP1, Tls, "1s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_over_tls_with_a_lame_duck() {
    nothing_is_lost(HTTP2, Tls, "1s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_over_a_unix_socket() {
    nothing_is_lost(HTTP1, File, "0s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_over_a_unix_socket() {
    nothing_is_lost(HTTP2, File, "0s").await;
}
