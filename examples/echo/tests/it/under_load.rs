//! SIGTERM in the middle of the load.

use adieu_load::{Load, Mode};
use adieu_testkit::iterations;
use tokio::time::timeout;

use crate::server::{GOODBYE, PATIENCE, Server};

async fn every_line_is_acknowledged_or_never_read(tls: bool, stops: usize) {
    let crowds = [(Mode::KeepAlive, 64), (Mode::Fresh, 128), (Mode::Mixed, 32)];
    for (mode, clients) in crowds.repeat(stops) {
        let mut server = Server::with(tls, &[]).await;
        let load = Load::lines(server.target.clone(), GOODBYE);
        let running = load.mode(mode).clients(clients).start();
        timeout(PATIENCE, running.answered(2_000)).await.unwrap();
        server.subject.terminate().unwrap();
        let tally = timeout(PATIENCE, running.finish()).await.unwrap();
        let end = server.end().await;
        println!(
            "{mode:?}, {clients} clients, TLS: {tls}: {tally}, gone after {:?}",
            end.took
        );
        assert_eq!((tally.lost(), tally.unsent), (0, 0), "{mode:?}: {tally}");
        if mode == Mode::KeepAlive {
            assert_eq!(tally.goodbyes, clients as u64, "{tally}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain() {
    every_line_is_acknowledged_or_never_read(false, iterations(1, 200)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls() {
    every_line_is_acknowledged_or_never_read(true, iterations(1, 50)).await;
}
