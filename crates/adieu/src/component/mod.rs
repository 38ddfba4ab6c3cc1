//! The builders that [`App`](crate::App) gives for tasks, resources and hooks.

// Each component registers itself, starts, and says how it is to be ended.

mod hook;
mod resource;
mod task;

pub use crate::runtime::ending::Ending;
pub(crate) use crate::runtime::ending::{BoxFuture, Closer};

pub use hook::HookBuilder;
pub use resource::{OpenResource, Resource};
pub use task::{BlockingBuilder, TaskBuilder};

pub(crate) use resource::resource;
#[cfg(feature = "state")]
pub(crate) use task::{Code, begin};
pub(crate) use task::{again, launch, once, running};
