//! `ConnIo` recognises hyper's own GOAWAY in what hyper writes, because it has sent one already. That rests on how hyper
//! writes: the whole frame in the first slice of one write. If an update of hyper changes that, these tests fail.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::h2_frames::{FrameTracker, GOAWAY_MAX};

/// One write of hyper: its slices.
type Write = Vec<Vec<u8>>;

/// The server's end of a connection that keeps every write as it was made.
struct Recorder {
    stream: DuplexStream,
    writes: Arc<Mutex<Vec<Write>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write: Write = slices.iter().map(|slice| slice.to_vec()).collect();
        let all = write.concat();
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, &all))?;
        assert_eq!(count, all.len(), "there is room for everything");
        self.writes.lock().expect("no panic").push(write);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Reads until these bytes have come.
async fn read_until(client: &mut DuplexStream, bytes: &[u8]) {
    let mut seen = Vec::new();
    while !seen.windows(bytes.len()).any(|window| window == bytes) {
        let count = client.read_buf(&mut seen).await.expect("it reads");
        assert!(count > 0, "the server has closed");
    }
}

/// The writes of a hyper server whose graceful shutdown is started once the client, who has sent these frames, has seen those
/// bytes; up to the GOAWAY.
async fn writes_of_a_shutdown(sent: &[u8], awaited: &[u8]) -> Vec<Write> {
    let (mut client, stream) = tokio::io::duplex(1 << 20);
    let writes = Arc::<Mutex<Vec<Write>>>::default();
    let recorder = Recorder {
        stream,
        writes: Arc::clone(&writes),
    };
    // More than the window of a stream: its response is in flight when the shutdown begins.
    let service = hyper::service::service_fn(async |_: http::Request<Incoming>| {
        Ok::<_, io::Error>(http::Response::new("x".repeat(100_000)))
    });
    let mut connection = pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(recorder), service)
    );
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], sent].concat();
    client.write_all(&preface).await.expect("there is room");
    // Neither future forgets anything when the other one is done: both are polled again or over.
    tokio::select! {
        ended = &mut connection => panic!("{ended:?}"),
        () = read_until(&mut client, awaited) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = &mut connection => panic!("{ended:?}"),
        goaway = tokio::time::timeout(Duration::from_secs(10), read_until(&mut client, GOAWAY_MAX)) => {
            goaway.expect("hyper announces a shutdown with a GOAWAY that refuses nothing");
        }
    }
    writes.lock().expect("no panic").clone()
}

/// How many of the writes have the GOAWAY where `ConnIo` looks for it.
fn recognised(writes: &[Write]) -> usize {
    let mut tracker = FrameTracker::new();
    let mut count = 0;
    for write in writes {
        let first = write.iter().find(|slice| !slice.is_empty());
        count += usize::from(first.is_some_and(|it| tracker.goaway_max_in(it).is_some()));
        tracker.written(&write.concat());
    }
    count
}

const CHANGED: &str =
    "hyper has changed how it writes its GOAWAY: `ConnIo::before_second_goaway` must follow";

#[tokio::test]
async fn hyper_writes_the_goaway_of_an_idle_connection_in_one_slice() {
    let settings_acknowledged = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    let writes = writes_of_a_shutdown(&[], &settings_acknowledged).await;
    assert_eq!(recognised(&writes), 1, "{CHANGED}");
}

#[tokio::test]
async fn hyper_writes_the_goaway_behind_a_response_in_flight_in_one_slice() {
    // GET / over http, whole, on stream 1.
    let request = [0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84];
    let writes = writes_of_a_shutdown(&request, b"xxxxxxxx").await;
    assert_eq!(recognised(&writes), 1, "{CHANGED}");
}

#[test]
fn a_goaway_that_is_cut_in_two_is_not_recognised() {
    let (begin, end) = GOAWAY_MAX.split_at(9);
    assert_eq!(recognised(&[vec![begin.to_vec()], vec![end.to_vec()]]), 0);
    assert_eq!(recognised(&[vec![GOAWAY_MAX.to_vec()]]), 1);
}
