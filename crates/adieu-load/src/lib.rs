//! A load client for servers that stop.
//!
//! Clients in a closed loop (each sends its next request when it has the answer to the last) on sockets of their
//! own, so that of every request it is known whether it was sent whole and whether its answer came back whole.
//!
//! **Lost** is a request that was sent whole on an open connection and got no whole answer. A connection that is
//! refused is not counted as lost, nor is an answer that tells the client to try again elsewhere; both have counts
//! of their own.
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

mod balanced;
mod client;
mod echo;
mod head;
mod http1;
mod http2;
mod insecure_tls;
mod load;
mod outcome;
mod request;
mod request_span;
mod steady;
mod tally;
mod target;
mod timeout;

pub use balanced::{Attempt, BalancedLoad, BalancedRequest, BalancerRules, Layer, RetryOn};
pub use head::{Body, Head};
pub use load::{Load, Mode, Running};
pub use outcome::{Loss, Outcome};
pub use request::Request;
pub use request_span::RequestSpan;
pub use steady::{Connections, NumberedRequest, Pace, SteadyLoad, SteadyRunning};
pub use tally::Tally;
pub use target::{Connection, Pipe, Target};
