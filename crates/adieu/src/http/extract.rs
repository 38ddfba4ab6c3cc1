//! The stop, for request handlers.

use std::ops::Deref;

#[cfg(feature = "axum")]
use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::Extensions;
#[cfg(feature = "axum")]
use http::{StatusCode, request::Parts};

use super::peer::Peer;
use crate::runtime::stop::Stop;

/// The [`Stop`] of the service for a request handler, so that a stream, a WebSocket or a long poll can end
/// politely. With the feature `axum` an extractor, rejected with 500 where no adieu server has put one in. A handler that
/// is served by others as well takes `Option<Stopping>`.
///
/// ```
/// use adieu::http::Stopping;
///
/// async fn long_poll(stop: Stopping) -> &'static str {
///     stop.requested().await;
///     "going away"
/// }
/// ```
///
/// A test that calls a router without a server puts one among the extensions of the request, or lays
/// `axum::Extension(Stopping(stop))` over the router.
#[derive(Clone, Debug)]
pub struct Stopping(pub Stop);

impl Stopping {
    /// The stop, for services that are not axum's: from the extensions of a request that an adieu server took in.
    ///
    /// ```
    /// use adieu::http::Stopping;
    ///
    /// fn is_stopping<B>(request: &http::Request<B>) -> bool {
    ///     Stopping::of(request.extensions()).is_some_and(|stop| stop.is_requested())
    /// }
    /// # assert!(!is_stopping(&http::Request::new(())));
    /// ```
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Self>().cloned().or_else(|| {
            let stop = extensions.get::<Peer>()?.stop()?;
            Some(Self(stop))
        })
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
            "the request carries no adieu::http::Stopping: no adieu server has taken it in; a test can lay \
             `Extension(Stopping(stop))` over the router, and `Option<Stopping>` does without",
        );
        Self::of(&parts.extensions).ok_or(missing)
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> OptionalFromRequestParts<S> for Stopping {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}
