//! Small servers that misbehave on purpose: each fate is recognised as what it is.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use adieu_load::{Load, Mode, Tally, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves one connection with `serve`, refuses all others, and gives the tally of one client.
async fn one_client<F: Future<Output = io::Result<()>> + Send>(
    load: impl FnOnce(Target) -> Load,
    serve: impl FnOnce(TcpStream) -> F,
) -> Tally {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let running = load(Target::tcp(address)).clients(1).start();
    let (stream, _) = listener.accept().await.unwrap();
    drop(listener);
    let (_, tally) = tokio::join!(serve(stream), running.finish());
    tally
}

fn http1(target: Target) -> Load {
    Load::http1(target, "/").patience(Duration::from_secs(5))
}

/// Reads a whole request.
async fn take_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await? > 0 {}
    Ok(())
}

/// Answers one request with these bytes, and closes.
async fn answers(bytes: &'static [u8]) -> Tally {
    one_client(http1, async |mut stream| {
        take_request(&mut stream).await?;
        stream.write_all(bytes).await?;
        stream.shutdown().await
    })
    .await
}

#[tokio::test]
async fn a_whole_answer_and_a_refusal() {
    let tally =
        answers(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!((tally.answered, tally.refused), (1, 1), "{tally}");
    assert_eq!((tally.lost(), tally.unsent), (0, 0), "{tally}");
}

#[tokio::test]
async fn chunks_to_their_end() {
    let whole =
        answers(b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").await;
    assert_eq!((whole.answered, whole.lost()), (1, 0), "{whole}");
    let half = answers(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await;
    assert_eq!((half.answered, half.truncated), (0, 1), "{half}");
}

#[tokio::test]
async fn half_a_head_and_half_a_body_are_truncated() {
    for bytes in [
        &b"HTTP/1.1 200"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
    ] {
        let tally = answers(bytes).await;
        assert_eq!((tally.truncated, tally.lost()), (1, 1), "{tally}");
    }
}

#[tokio::test]
async fn a_close_without_a_byte_is_a_loss() {
    let tally = answers(b"").await;
    assert_eq!((tally.closed, tally.lost()), (1, 1), "{tally}");
    assert_eq!(tally.evidence.len(), 1, "{tally}");
}

#[tokio::test]
async fn a_close_on_a_kept_connection_is_a_loss_too() {
    let tally = one_client(http1, async |mut stream| {
        take_request(&mut stream).await?;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        stream.write_all(answer).await?;
        take_request(&mut stream).await?;
        stream.shutdown().await
    })
    .await;
    assert_eq!((tally.answered, tally.closed), (1, 1), "{tally}");
}

#[tokio::test]
async fn a_reset_is_a_loss() {
    // Closing with unread bytes resets the connection.
    let tally = one_client(http1, async |mut stream| {
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        Ok(())
    })
    .await;
    assert_eq!((tally.reset, tally.lost()), (1, 1), "{tally}");
}

#[tokio::test]
async fn told_to_retry_is_none() {
    let tally =
        answers(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .await;
    assert_eq!((tally.retry, tally.lost()), (1, 0), "{tally}");
}

#[tokio::test]
async fn blame_of_the_server_is_counted_apart() {
    for bytes in [
        &b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ] {
        let tally = answers(bytes).await;
        assert_eq!((tally.failed, tally.lost()), (1, 0), "{tally}");
        assert!(tally.evidence[0].starts_with("5xx: status 50"), "{tally}");
    }
}

#[tokio::test]
async fn silence_is_a_loss_in_the_end() {
    let impatient = |target| http1(target).patience(Duration::from_millis(50));
    let tally = one_client(impatient, async |mut stream| {
        take_request(&mut stream).await?;
        // Until the client gives up.
        take_request(&mut stream).await
    })
    .await;
    assert_eq!((tally.timed_out, tally.lost()), (1, 1), "{tally}");
}

#[tokio::test]
async fn a_close_while_idle_costs_nothing() {
    let tally = one_client(
        |target| http1(target).mode(Mode::Fresh),
        async |mut stream| {
            take_request(&mut stream).await?;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
        },
    )
    .await;
    assert_eq!((tally.answered, tally.sent()), (1, 1), "{tally}");
}

const GOODBYE: &str = "Bye!\r\n";

async fn lines(answers: &'static [u8]) -> Tally {
    let load = |target| Load::lines(target, GOODBYE);
    one_client(load, async move |mut stream| {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && stream.read_buf(&mut line).await? > 0 {}
        stream.write_all(answers).await?;
        stream.shutdown().await?;
        while stream.read_buf(&mut line).await? > 0 {}
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_echo_and_a_goodbye() {
    let tally = lines(b"Echo: line 0\r\nBye!\r\n").await;
    assert_eq!((tally.answered, tally.goodbyes), (1, 1), "{tally}");
    assert_eq!((tally.lost(), tally.unsent), (0, 0), "{tally}");
}

#[tokio::test]
async fn a_goodbye_in_the_place_of_an_echo_is_no_loss() {
    let tally = lines(b"Bye!\r\n").await;
    assert_eq!((tally.retry, tally.goodbyes), (1, 1), "{tally}");
    assert_eq!(tally.lost(), 0, "{tally}");
}

#[tokio::test]
async fn half_an_echo_is_truncated_and_none_is_a_close() {
    let half = lines(b"Echo: li").await;
    assert_eq!((half.truncated, half.lost()), (1, 1), "{half}");
    let none = lines(b"").await;
    assert_eq!((none.closed, none.lost()), (1, 1), "{none}");
}

fn http2(target: Target) -> Load {
    Load::http2(target, "/")
}

/// A frame by its type, flags and stream.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend(payload);
    frame
}

/// Reads the preface, and frames until the head of the fourth stream.
async fn take_four_streams(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&frame(4, 0, 0, &[])).await?;
    stream.read_exact(&mut [0; 24]).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        stream.read_exact(&mut payload).await?;
        if (head[3], head[8]) == (1, 7) {
            return Ok(());
        }
    }
}

/// An answer without a body: status 200, from the table every HTTP/2 client has.
fn whole_answer(stream: u8) -> Vec<u8> {
    frame(1, 0b101, stream, &[0x88])
}

#[tokio::test]
async fn streams_of_a_connection_that_breaks_are_lost() {
    let tally = one_client(http2, async |mut stream| {
        take_four_streams(&mut stream).await?;
        // One whole, one without its body.
        stream.write_all(&whole_answer(1)).await?;
        stream.write_all(&frame(1, 0b100, 3, &[0x88])).await?;
        stream.shutdown().await
    })
    .await;
    assert_eq!((tally.answered, tally.truncated), (1, 1), "{tally}");
    assert!(tally.closed + tally.reset >= 2, "{tally}");
}

#[tokio::test]
async fn streams_above_the_last_of_a_goaway_are_not_and_those_below_are() {
    let tally = one_client(http2, async |mut stream| {
        take_four_streams(&mut stream).await?;
        stream
            .write_all(&frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]))
            .await?;
        stream.write_all(&whole_answer(1)).await?;
        stream.shutdown().await
    })
    .await;
    assert_eq!(
        (tally.answered, tally.retry, tally.lost()),
        (1, 2, 1),
        "{tally}"
    );
}

#[tokio::test]
async fn a_refused_stream_is_not_lost() {
    let tally = one_client(http2, async |mut stream| {
        take_four_streams(&mut stream).await?;
        for number in [1, 3, 5, 7] {
            stream
                .write_all(&frame(3, 0, number, &[0, 0, 0, 7]))
                .await?;
        }
        stream.shutdown().await
    })
    .await;
    assert_eq!((tally.retry, tally.lost()), (4, 0), "{tally}");
}
