//! One service at run time: what its threads share, its tracked tasks, its stop, and the driver of its state machine.

pub(crate) mod component_stop;
pub(crate) mod driver;
pub(crate) mod ending;
pub(crate) mod extension;
pub(crate) mod group;
pub(crate) mod hard_exit;
pub(crate) mod plan;
pub(crate) mod registered;
pub(crate) mod registrar;
pub(crate) mod shared;
pub(crate) mod spawn;
mod status;
pub(crate) mod stop;
pub(crate) mod stop_state;
pub(crate) mod supervise;
pub(crate) mod tracked;
mod watchdog;
