//! The stop, for request handlers.

use std::ops::Deref;

#[cfg(feature = "axum")]
use axum_core::extract::FromRequestParts;
use http::Extensions;
#[cfg(feature = "axum")]
use http::{StatusCode, request::Parts};

use crate::component::http::Enclosure;
use crate::stop::Stop;

/// The [`Stop`] of the service for whoever handles a request, so that a stream, a WebSocket or a long poll can end
/// politely. With the feature `axum` an extractor, rejected with 500 where no adieu server has put one in.
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

impl Stopping {
    /// The stop, for services that are not axum's: from the extensions of a request that an adieu server took in.
    ///
    /// ```
    /// use adieu::Stopping;
    ///
    /// fn is_stopping<B>(request: &http::Request<B>) -> bool {
    ///     Stopping::of(request.extensions()).is_some_and(|stop| stop.is_requested())
    /// }
    /// # assert!(!is_stopping(&http::Request::new(())));
    /// ```
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Enclosure>().map(|it| Self(it.stop()))
    }
}

impl Deref for Stopping {
    type Target = Stop;

    fn deref(&self) -> &Stop {
        &self.0
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> FromRequestParts<S> for Stopping {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let missing = (
            StatusCode::INTERNAL_SERVER_ERROR,
            "this router is not served by adieu",
        );
        Self::of(&parts.extensions).ok_or(missing)
    }
}
