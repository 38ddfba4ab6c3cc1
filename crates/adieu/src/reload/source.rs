//! What a transaction is made of, without its types.

use std::sync::Arc;

use crate::error::BoxError;
use crate::runtime::ending::BoxFuture;

/// Something that can be loaded anew.
pub(crate) trait Source: Send + Sync {
    fn name(&self) -> &Arc<str>;

    /// Loads, without an effect on readers. May be dropped at any await.
    fn load(self: Arc<Self>) -> BoxFuture<Result<Box<dyn StagedValue>, BoxError>>;
}

/// What was loaded and is not in force yet.
pub(crate) trait StagedValue: Send {
    /// Looks at it, and says who refuses it.
    fn check(&self) -> Result<(), (Arc<str>, BoxError)> {
        Ok(())
    }

    /// What has to be done for it to come into force.
    fn steps(&self) -> Vec<Step> {
        Vec::new()
    }

    /// Makes the new value visible to all readers. Must not fail and not wait.
    fn commit(self: Box<Self>);
}

type BoxedStep = Box<dyn FnOnce() -> BoxFuture<Result<(), BoxError>> + Send>;

/// What one part does, and how it takes it back.
pub(crate) struct Step {
    pub(crate) name: Arc<str>,
    pub(crate) apply: BoxedStep,
    pub(crate) undo: BoxedStep,
}
