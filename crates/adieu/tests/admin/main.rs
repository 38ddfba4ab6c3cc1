//! The admin port, asked over real sockets while a scope lives and stops.
#![cfg(feature = "admin")]

mod checks;
mod client;
mod flood;
mod life;
mod peers;
mod routes;
#[cfg(feature = "schedule")]
mod schedules;
mod sizes;
