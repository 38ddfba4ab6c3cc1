//! What systemd hears of a hand-off.

use std::os::unix::net::UnixDatagram;

use crate::lineage::{Lineage, PATIENCE};

fn hear(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4_096];
    let count = socket.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn the_new_process_becomes_the_main_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let address = path.display().to_string();
    let mut web = Lineage::start_with("127.0.0.1:0", &[], &[("NOTIFY_SOCKET", &address)]);
    assert_eq!(hear(&socket), "READY=1\nSTATUS=running\n");

    web.next_is("exit 7");
    web.hand_over_in_vain();
    let reloading = hear(&socket);
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    let back = hear(&socket);
    assert!(
        back.starts_with("READY=1\nSTATUS=running; the hand-off failed: process "),
        "{back}"
    );

    web.next_is_good();
    web.hand_over();
    assert!(hear(&socket).starts_with("RELOADING=1\n"));
    assert_eq!(
        hear(&socket),
        format!("MAINPID={}\nREADY=1\nSTATUS=running\n", web.pid())
    );
    // The old one has ended by now, without a word: systemd would take it for the service's end.
    if !web.log().contains("took over from process ") {
        web.wait_for("took over from process ");
    }
    assert_eq!(web.stop(), Some(0));
    let stopping = hear(&socket);
    assert!(
        stopping.starts_with("STOPPING=1\nSTATUS=stopping: sigterm\n"),
        "{stopping}"
    );
}
