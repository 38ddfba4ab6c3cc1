//! `adieu drill` as it is run: the real binary, and programs that are wrong in every way that a command line can be.
#![cfg(unix)]

mod bad_input;
mod compare;
mod evidence;
mod interrupt;
mod judgement;
mod liveness;
mod newcomers;
mod options;
mod reports;
mod resume;
mod support;
mod websocket;
mod workers;
