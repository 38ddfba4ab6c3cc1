//! The stop, for axum handlers.

use std::ops::Deref;

use axum_core::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::stop::Stop;

/// An axum extractor for the [`Stop`] of the service, so that a stream, a WebSocket or a long poll can end
/// politely. Rejected with 500 where no adieu server has put one in.
///
/// ```
/// use adieu::Stopping;
///
/// async fn long_poll(stop: Stopping) -> &'static str {
///     stop.requested().await;
///     "going away"
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Stopping(pub Stop);

impl Deref for Stopping {
    type Target = Stop;

    fn deref(&self) -> &Stop {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Stopping {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let missing = (
            StatusCode::INTERNAL_SERVER_ERROR,
            "this router is not served by adieu",
        );
        parts
            .extensions
            .get::<Stop>()
            .cloned()
            .map(Self)
            .ok_or(missing)
    }
}
