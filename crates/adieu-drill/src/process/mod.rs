//! The program under drill, as a process: started in a group of its own, watched, signalled, and never left behind.

mod form;
mod kin;
mod launch;
mod output;
mod ports;
mod ready;
mod subject;

pub(crate) use form::{Form, held_socket};
pub(crate) use kin::Reaper;
pub(crate) use launch::Launch;
pub(crate) use ports::Blanks;
pub use ready::Ready;
pub(crate) use subject::{Ended, Subject, describe};
