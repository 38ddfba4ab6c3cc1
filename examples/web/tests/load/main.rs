//! The server is stopped under full load, with a full queue, with thousands of idle clients and over a slow
//! network: no request is lost.

mod backlog;
mod idle;
mod long_lived;
mod server;
mod slow_network;
mod under_load;
