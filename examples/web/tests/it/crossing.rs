//! An HTTP/2 stream that crosses the end of its connection on the way, with a client as people use them: it must hear
//! that it may send it again.

use std::net::SocketAddr;

use ::h2::Reason;
use ::h2::client::{ResponseFuture, SendRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::live::PATIENCE;
use crate::web::Web;

/// A network in between, that can hold back what the server says.
struct Network {
    address: SocketAddr,
    freeze: oneshot::Sender<()>,
    thaw: oneshot::Sender<()>,
    /// The server has closed its side, which the client does not know while it is frozen.
    closed: oneshot::Receiver<()>,
    /// The client has sent something.
    sent: mpsc::UnboundedReceiver<()>,
}

impl Network {
    async fn to(server: SocketAddr) -> Self {
        let (freeze, frozen) = oneshot::channel();
        let (thaw, thawed) = oneshot::channel();
        let (tell_closed, closed) = oneshot::channel();
        let (tell_sent, sent) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.expect("the client comes");
            let server = TcpStream::connect(server)
                .await
                .expect("the server is there");
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move {
                let mut bytes = [0; 4_096];
                while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                    let _ = tell_sent.send(());
                    // The server may be gone; the network does not mind.
                    let _ = to_server.write_all(&bytes[..count]).await;
                }
            });
            let passing = async {
                let mut bytes = [0; 4_096];
                while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                    let _ = to_client.write_all(&bytes[..count]).await;
                }
            };
            // Reading is cancel-safe, and nothing is on its way when the test freezes the network.
            tokio::select! {
                () = passing => panic!("the server closed before its time"),
                _ = frozen => {}
            }
            let mut held = Vec::new();
            let _ = from_server.read_to_end(&mut held).await;
            let _ = tell_closed.send(());
            let _ = thawed.await;
            let _ = to_client.write_all(&held).await;
        });
        Self {
            address,
            freeze,
            thaw,
            closed,
            sent,
        }
    }
}

async fn ask(client: &mut SendRequest<bytes::Bytes>) -> ResponseFuture {
    let ready = client
        .clone()
        .ready()
        .await
        .expect("nothing is known of an end");
    *client = ready;
    let request = http::Request::get("http://localhost/")
        .body(())
        .expect("a request");
    client
        .send_request(request, true)
        .expect("it can be sent")
        .0
}

#[tokio::test]
async fn a_stream_that_crosses_the_cut_may_be_sent_again() {
    let mut live = Web::new().start();
    let mut network = Network::to(live.address).await;
    let socket = TcpStream::connect(network.address).await.expect("a way");
    let (mut client, driver) = ::h2::client::handshake(socket).await.expect("a handshake");
    tokio::spawn(driver);
    let answer = ask(&mut client).await.await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    while let Some(piece) = body.data().await {
        piece.expect("the body");
    }

    network.freeze.send(()).expect("the network runs");
    live.stop();
    // It asks for a sign of life, which does not come, and ends the connection.
    let closed = timeout(PATIENCE, network.closed).await;
    closed
        .expect("the server closes")
        .expect("the network runs");
    while network.sent.try_recv().is_ok() {}
    let answer = ask(&mut client).await;
    network.sent.recv().await.expect("it is sent");
    network.thaw.send(()).expect("the network runs");

    let error = answer.await.expect_err("no process is there");
    assert!(error.is_remote() && error.is_go_away(), "{error:?}");
    assert_eq!(error.reason(), Some(Reason::NO_ERROR));
    live.finish().exits(0).within_ms(1_500);
}
