//! The echo server is stopped: every line is acknowledged or never read, and every client gets the goodbye.

mod bounds;
mod goodbye;
mod lines;
mod server;
mod taken;
mod under_load;
