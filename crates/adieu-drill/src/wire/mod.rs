//! One connection, known to the byte: what a check says on it and hears.

mod answer;
mod frames;
mod http1;
mod websocket;

pub(crate) use answer::{Answer, Broken, Digest, field};
pub(crate) use frames::{Frame, H2};
pub(crate) use http1::{End, Wire};
pub(crate) use websocket::{Message, WebSocket};
