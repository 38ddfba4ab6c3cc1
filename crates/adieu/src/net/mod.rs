//! Sockets: bound in `setup`, accepting while the service runs, taken away without losing anybody.

mod accept;
mod connection;
mod estate;
mod holder;
mod inherit;
mod listen;
mod quit;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub(crate) use accept::{Server, Tide};
#[cfg(feature = "admin")]
pub(crate) use connection::Census;
pub(crate) use connection::{Bell, Guest};
#[cfg(feature = "admin")]
pub(crate) use estate::Keeper;
pub(crate) use estate::{Bequest, Estate};
pub(crate) use inherit::{Heirloom, Origin, from_environment};
#[cfg(feature = "admin")]
pub(crate) use listen::Listening;
pub use listen::{Listen, Listener};
pub(crate) use stream::Stream;
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;
pub(crate) use wire::Wire;
