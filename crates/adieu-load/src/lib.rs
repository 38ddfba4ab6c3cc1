//! A load client for servers that stop.
//!
//! Clients in a closed loop (each sends its next request when it has the answer to the last) on sockets of their
//! own, so that of every request it is known whether it was sent whole and whether its answer came back whole.
//!
//! **Lost** is a request that was sent whole on an open connection and got no whole answer. A connection that is
//! refused is no loss, and neither is an answer that tells the client to try again elsewhere; both are counted
//! apart.
//!
//! ```no_run
//! # async fn stop_the_server() {}
//! # async fn example(address: std::net::SocketAddr) {
//! use adieu_load::{Load, Mode, Target};
//!
//! let load = Load::http1(Target::tcp(address), "/").clients(64).mode(Mode::Mixed).start();
//! load.answered(1_000).await;
//! stop_the_server().await;
//! let tally = load.finish().await;
//! assert_eq!(tally.lost(), 0, "{tally}");
//! # }
//! ```

mod bar;
mod client;
mod fate;
mod head;
mod http1;
mod http2;
mod lines;
mod load;
#[cfg(target_os = "linux")]
mod mirror;
mod patience;
mod proof;
mod request;
#[cfg(unix)]
mod subject;
mod tally;
mod target;
mod trust;

pub use bar::Bar;
pub use fate::{Fate, Loss};
pub use head::{Body, Head};
pub use load::{Load, Mode, Running};
#[cfg(target_os = "linux")]
pub use mirror::Mirror;
pub use proof::times;
pub use request::Request;
#[cfg(unix)]
pub use subject::{Subject, SubjectEnd};
pub use tally::Tally;
pub use target::{Connection, Pipe, Target};
