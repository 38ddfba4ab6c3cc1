//! Sockets: bound in `setup`, accepting while the service runs, taken away without losing anybody.
//!
//! What differs between systems is in `platform`: one file for each.

mod accept;
#[cfg(unix)]
mod activation;
mod closed;
mod connection;
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "nothing is handed over between processes there")
)]
mod estate;
mod holder;
#[cfg_attr(
    not(unix),
    expect(dead_code, reason = "no listener comes with the process there")
)]
mod inherit;
mod listen;
#[cfg_attr(unix, path = "platform/unix.rs")]
#[cfg_attr(windows, path = "platform/windows.rs")]
mod platform;
mod quit;
#[cfg(feature = "admin")]
mod spare;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub(crate) use accept::{Server, Tide};
#[cfg(feature = "admin")]
pub(crate) use connection::Census;
pub(crate) use connection::{Bell, Doing, Guest};
#[cfg(unix)]
pub(crate) use estate::Bequest;
pub(crate) use estate::Estate;
#[cfg(feature = "admin")]
pub(crate) use estate::Keeper;
#[cfg(unix)]
pub(crate) use inherit::{Heirloom, Origin};
#[cfg(feature = "admin")]
pub(crate) use listen::Listening;
pub(crate) use listen::advice;
pub use listen::{Listen, Listener};
pub(crate) use platform::inherited;
#[cfg(feature = "admin")]
pub(crate) use spare::Spare;
pub(crate) use stream::Stream;
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;
pub(crate) use wire::Wire;
