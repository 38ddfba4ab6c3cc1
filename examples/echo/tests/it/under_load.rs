//! SIGTERM in the middle of the load.

use adieu_load::{Load, Mode, Target, times};
use tokio::time::timeout;

use crate::server::{GOODBYE, PATIENCE, Server};

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_acknowledged_or_never_read() {
    let crowds = [(Mode::KeepAlive, 64), (Mode::Fresh, 128), (Mode::Mixed, 32)];
    for (mode, clients) in crowds.repeat(times(1, 200)) {
        let mut server = Server::start().await;
        let load = Load::lines(Target::tcp(server.address), GOODBYE);
        let running = load.mode(mode).clients(clients).start();
        timeout(PATIENCE, running.answered(2_000)).await.unwrap();
        server.subject.terminate().unwrap();
        let tally = timeout(PATIENCE, running.finish()).await.unwrap();
        let end = server.end().await;
        println!(
            "{mode:?}, {clients} clients: {tally}, gone after {:?}",
            end.took
        );
        assert_eq!((tally.lost(), tally.unsent), (0, 0), "{mode:?}: {tally}");
        if mode == Mode::KeepAlive {
            assert_eq!(tally.goodbyes, clients as u64, "{tally}");
        }
    }
}
