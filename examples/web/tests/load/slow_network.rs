//! Through a network with a round trip of 20 ms.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adieu_load::{Load, Mirror, Mode, Target, times};

use crate::server::Server;

const INSIDE: &str = "slow_network::inside_a_network_of_its_own";

#[test]
fn nothing_is_lost_over_a_slow_network() {
    let this = std::env::current_exe().unwrap();
    let mut probe = Mirror::alone();
    match probe.arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            return println!("skipped, no network of our own: {why}");
        }
        Err(error) => return println!("skipped, no `unshare`: {error}"),
    }
    let output = Mirror::alone()
        .arg(this)
        .args(["--exact", INSIDE, "--ignored", "--nocapture"])
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
    if let Err(error) = Mirror::start(Duration::from_millis(10)) {
        return println!("skipped, no device for a slow network: {error}");
    }
    let listen = SocketAddr::new(IpAddr::V4(Mirror::NEAR), 0).to_string();
    let crowds = [(Mode::KeepAlive, 64), (Mode::Fresh, 128), (Mode::Mixed, 32)];
    for (mode, clients) in crowds.repeat(times(1, 50)) {
        let server = Server::listening_on(&listen, false, &[]).await;
        let far = SocketAddr::new(IpAddr::V4(Mirror::FAR), server.address.port());
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
