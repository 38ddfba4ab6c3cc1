//! The response to a request that may be answered with a stream of events, here or by the old process before.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Response, StatusCode};

use super::body::ResponseBody;

/// Looks at what a service has answered. In the middle of a response of the old process the client gets the end of it, unless
/// it is a stream of events as a route has made it.
pub(super) fn look_at<B: http_body::Body>(
    response: &mut Response<ResponseBody<B>>,
    has_body: bool,
    is_event_stream: bool,
) {
    let headers = response.headers();
    let is_as_made = is_event_stream
        && !has_body
        && response.status() == StatusCode::OK
        && response.body().is_of_unknown_length()
        && [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING]
            .iter()
            .all(|name| !headers.contains_key(name));
    let connection = response.body().connection();
    if connection.events.answered(is_as_made).is_ok() {
        return;
    }
    let (peer, status) = (connection.socket.peer(), response.status());
    connection.server.core.log_deferred(move || {
        tracing::warn!(target: "adieu", peer, %status, "no route goes on with a stream of events of the old process");
    });
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().clear();
    response.body_mut().end_events();
}
