//! The bot as a process, against a server that speaks the Bot API and keeps count.

mod api;
mod bot;
mod drill;
mod promises;
