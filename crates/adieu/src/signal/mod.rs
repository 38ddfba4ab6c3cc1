//! Signals of the operating system. [`App::on_signal`](crate::App::on_signal) handles one.

// They are caught in the registry and dispatched to the services that subscribe.

mod dispatch;
mod key_press;
mod kind;
mod registry;

#[doc(inline)]
pub use adieu_lifecycle::StopSignal;
pub(crate) use dispatch::bind;
pub use kind::Signal;
pub(crate) use registry::{AfterEnd, SignalGuard, Subscription, catch, listen_for};
