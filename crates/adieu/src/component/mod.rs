//! The builders that [`App`](crate::App) gives for tasks, resources and hooks, and the handles of components.

// Each component registers itself, starts, and says how it is to be ended.

mod custom;
mod handle;
mod hook;
mod resource;
mod task;

pub use crate::runtime::ending::Ending;
pub(crate) use crate::runtime::ending::{BoxFuture, Closer};

pub use crate::report::ComponentStatus;
pub use custom::{Component, Stopped};
pub use handle::ComponentHandle;
pub use hook::HookBuilder;
pub use resource::{OpenResource, Resource, RetryOpen};
pub use task::{BlockingBuilder, TaskBuilder};

pub(crate) use custom::start;
pub(crate) use resource::resource;
#[cfg(feature = "state")]
pub(crate) use task::{Code, begin};
pub(crate) use task::{again, launch, once, running};
