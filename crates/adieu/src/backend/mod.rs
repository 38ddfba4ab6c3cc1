//! The shared engines, as stores and queues find them: an address is read once, is shown without its secrets, and says
//! whether the way there is encrypted.

mod address;
#[cfg(any(feature = "nats", all(feature = "redis", feature = "tls")))]
mod crypto;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod tls;

pub(crate) use address::AddressError;
