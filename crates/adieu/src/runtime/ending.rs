//! What the program hands over to run, and what it may return.

use std::future::Future;
use std::pin::Pin;

use crate::error::BoxError;

/// A future that can be sent to where it runs.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Ends a resource, or is the hook. Called once.
pub(crate) type Closer = Box<dyn FnOnce() -> BoxFuture<Result<(), BoxError>> + Send>;

/// What a task, a hook or a close may return: nothing, or a result; or it never returns.
///
/// Sealed: `()`, `Result<(), E>`, `!` and `Infallible`.
pub trait Ending: sealed::Sealed {
    #[doc(hidden)]
    fn into_result(self) -> Result<(), BoxError>;
}

impl Ending for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> Ending for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

impl Ending for std::convert::Infallible {
    fn into_result(self) -> Result<(), BoxError> {
        match self {}
    }
}

impl Ending for sealed::Never {
    fn into_result(self) -> Result<(), BoxError> {
        self
    }
}

mod sealed {
    /// The type `!`, which has no stable name yet, by way of a function that returns it.
    pub(super) type Never = <fn() -> ! as Output>::Of;

    pub trait Output {
        type Of;
    }

    impl<T> Output for fn() -> T {
        type Of = T;
    }

    pub trait Sealed {}
    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
    impl Sealed for std::convert::Infallible {}
    impl Sealed for Never {}
}
