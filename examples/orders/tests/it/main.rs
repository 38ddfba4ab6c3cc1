//! `example-orders` as a real process on a real database: what is being written is written, and nothing that holds
//! the pool holds the exit.

mod database;
mod opening;
mod postgres;
mod readme;
mod shop;
mod stop;
