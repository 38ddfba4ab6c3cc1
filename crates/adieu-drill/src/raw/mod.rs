//! One connection, known to the byte: what a check says on it and hears.

mod answer;
mod events;
mod frames;
mod http1;
mod websocket;

pub(crate) use answer::{Answer, Digest, WireError, field};
pub(crate) use events::EventStream;
pub(crate) use frames::{Frame, H2};
pub(crate) use http1::{End, RawConn};
pub(crate) use websocket::{Message, WebSocket};

/// No answer on the same machine takes this long unless the program is stuck.
pub(crate) const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
