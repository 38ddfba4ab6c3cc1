//! Bodies that look like requests, and what follows them.

use crate::client::{Client, Over, each};
use crate::web::Web;

/// Both have the end of a head in them, which is the end of none.
fn uploads() -> [String; 2] {
    let head = "POST /upload HTTP/1.1\r\nhost: localhost\r\n";
    let form =
        "--b\r\ncontent-disposition: form-data; name=x\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n--b--\r\n";
    [
        format!("{head}transfer-encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n"),
        format!("{head}content-length: {}\r\n\r\n{form}", form.len()),
    ]
}

/// Without `Connection: close`, a client sends its next request on the same connection, and it is lost.
#[test]
fn a_client_that_has_sent_a_body_is_told_to_go_elsewhere() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Web::new().lame_duck("1s").tls(over.is_tls()).start();
        let mut clients: Vec<(Client, String)> = uploads()
            .into_iter()
            .map(|upload| (live.connect(over), upload))
            .collect();
        for (client, upload) in &mut clients {
            let answer = client.send(&*upload).answer();
            assert_eq!((answer.status(), answer.closes()), (200, false));
        }
        live.stop();
        while !live.connect(over).get("/").closes() {}
        for (client, upload) in &mut clients {
            let answer = client.send(&*upload).answer();
            assert_eq!((answer.status(), answer.closes()), (200, true));
            client.is_closed();
            let first = live.connect(over).send(&*upload).answer();
            assert_eq!((first.status(), first.closes()), (200, true));
        }
        live.finish()
            .exits(0)
            .loses_nothing()
            .closes_no_other_connection();
    });
}

#[test]
fn what_is_sent_behind_a_body_is_answered() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Web::new().tls(over.is_tls()).start();
        let mut clients: Vec<Client> = uploads().iter().map(|_| live.connect(over)).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").status(), 200);
        }
        live.stop_and_be_refused();
        for (client, upload) in clients.iter_mut().zip(uploads()) {
            client.send(format!(
                "{upload}GET /slow?ms=10 HTTP/1.1\r\nhost: localhost\r\n\r\n"
            ));
            assert!(!client.answer().closes(), "one more is to be answered");
            let last = client.answer();
            assert_eq!((last.status(), last.closes()), (200, true));
            client.is_closed();
        }
        live.finish()
            .exits(0)
            .loses_nothing()
            .closes_no_other_connection();
    });
}
