//! One request to the collector.

use std::pin::pin;

use adieu_core::{Winner, race};
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::error::BoxError;

/// Posts this JSON. The answer counts if its status says success; its body is not read.
///
/// Dropped half-way, the connection is closed.
pub(super) async fn post(endpoint: &Uri, json: String) -> Result<(), BoxError> {
    let (host, authority) = match (endpoint.host(), endpoint.authority()) {
        (Some(host), Some(authority)) => (host, authority),
        _ => return Err("the address has no host".into()),
    };
    // Square brackets are the notation of a URL, and not of the address.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, endpoint.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let path = endpoint.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .body(json)?;
    let mut answering = pin!(async {
        let answer = sender.send_request(request).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(BoxError::from(format!("the collector answers {status}"))),
        }
    });
    match race(answering.as_mut(), connection).await {
        Winner::First(answered) => answered,
        // With the answer, if the collector closes the connection after it.
        Winner::Second(_) => answering.await,
    }
}
