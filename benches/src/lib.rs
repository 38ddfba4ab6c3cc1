//! What the programs under `src/bin` have in common: how to measure fairly, and how to say what was found.
//!
//! Every program measures us and the peer in one run, in turn (A B A B …), and takes the best of several
//! rounds: a busy machine makes things slower, never faster, so the best is the least disturbed.

mod child;
mod counting;
mod crowd;
mod duel;
mod finding;
mod heap;
mod series;
mod stopwatch;

pub use child::{Child, Clock, REST, elapsed, signal_then_exit};
pub use counting::Counting;
pub use crowd::{Question, Served, ask, linger};
pub use duel::{Duel, best, percentile, rounds};
pub use finding::{Finding, Unit};
pub use heap::steady_heap;
pub use series::Series;
pub use stopwatch::Stopwatch;
