//! The echo server is stopped: every line is acknowledged or never read, and everybody hears the goodbye.

mod bounds;
mod goodbye;
mod lines;
mod server;
mod taken;
mod under_load;
