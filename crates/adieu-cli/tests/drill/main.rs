//! `adieu drill` as it is run: the real binary, and programs that are wrong in every way that a command line can be.
#![cfg(unix)]

mod bad_input;
mod behind;
mod compare;
mod evidence;
mod few_workers;
mod fixed_drain;
mod given_paths;
mod interrupt;
mod jobs;
mod judgement;
mod liveness;
mod newcomers;
mod options;
mod reload;
mod reports;
mod resume;
mod rollout;
mod support;
mod unnoticed;
mod verdict;
mod websocket;
mod workers;
