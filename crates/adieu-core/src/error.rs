//! Any error.

/// Any error, as `setup`, tasks and engines may return it; `?` makes one of every error type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;
