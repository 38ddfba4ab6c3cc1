//! A stream of server-sent events, as far as a check needs it: that it goes on, and how it ends.

use std::io;

use adieu_load::Body;
use tokio::time::timeout;

use super::http1::{End, RawConn};
use super::{ANSWER_TIMEOUT, Digest, field};
use crate::endpoint::Endpoint;

/// An event stream that was opened.
pub(crate) struct EventStream {
    conn: RawConn,
    body: Body,
}

impl EventStream {
    /// Opens one, or says why not.
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, String> {
        let mut request = endpoint.request();
        let accept = ("accept".to_owned(), "text/event-stream".to_owned());
        request.headers.push(accept);
        let mut conn = RawConn::open(&endpoint.target())
            .await
            .map_err(|broken| broken.to_string())?;
        conn.send(&request.bytes(false))
            .await
            .map_err(|broken| broken.to_string())?;
        let head = timeout(ANSWER_TIMEOUT, conn.head())
            .await
            .map_err(|_| "no head came".to_owned())?;
        let (head, text) = head.map_err(|error| error.to_string())?;
        let kind = field(&text, "content-type").unwrap_or("nothing");
        match (head.status, head.body) {
            (200, _) if !is_events(kind) => Err(format!(
                "its content type is {kind} and not text/event-stream"
            )),
            (200, Body::Length(length)) => Err(format!("it ends by itself after {length} bytes")),
            (200, body) => Ok(Self { conn, body }),
            (status, _) => Err(format!("status {status}")),
        }
    }

    /// Waits until something of it came. False at its end, if that is in order. Not cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<bool> {
        match self.body {
            Body::Chunked => self.conn.chunk(&mut Digest::default()).await,
            Body::Length(_) | Body::UntilClose => {
                let _ = self.conn.take_received();
                match self.conn.more().await {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Reads to its end, which is in order or an error.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        if !matches!(self.body, Body::Chunked) {
            return match self.conn.end().await {
                End::Closed => Ok(()),
                End::WireError(error) => Err(error),
            };
        }
        while self.next().await? {}
        Ok(())
    }
}

fn is_events(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("text/event-stream")
}
