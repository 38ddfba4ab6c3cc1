//! What became of one request.

use std::fmt;

/// What became of one request, or of the attempt to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer came back.
    Answered,
    /// A whole answer came back, and it blames the server.
    Failed(u16),
    /// The server said that it did not and will not handle it: 408, a stream above the last one of a GOAWAY,
    /// or a goodbye in the place of an echo. The client may send it again elsewhere.
    Retry,
    /// No process listened on the address.
    Refused,
    /// The connection broke before the request was sent whole.
    Unsent,
    /// Sent whole on an open connection, and no whole answer came.
    Lost(Loss),
}

/// As it is counted: all answers that blame the server are of one class.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::Failed(_) => "5xx",
            Self::Retry => "told to retry",
            Self::Refused => "refused",
            Self::Unsent => "not sent whole",
            Self::Lost(loss) => return loss.fmt(f),
        })
    }
}

/// How a request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The connection was reset before a byte of the answer.
    Reset,
    /// The connection was closed before a byte of the answer.
    Closed,
    /// The answer began and did not end.
    Truncated,
    /// Nothing came in time.
    TimedOut,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset before a byte of the answer",
            Self::Closed => "closed before a byte of the answer",
            Self::Truncated => "truncated",
            Self::TimedOut => "timed out",
        })
    }
}
