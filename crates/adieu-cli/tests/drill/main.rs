//! `adieu drill` as it is run: the real binary, and programs that are wrong in every way that a command line can be.
#![cfg(unix)]

mod bad_input;
mod compare;
mod interrupt;
mod judgement;
mod options;
mod reports;
mod support;
