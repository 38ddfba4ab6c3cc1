//! What came back, or what came in its place.

use std::fmt;
use std::io;

use adieu_load::Head;

use crate::report::Fate;

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    /// The head as it came.
    pub(crate) text: String,
    pub(crate) body: Digest,
}

impl Answer {
    /// The value of a field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        field(&self.text, name)
    }
}

pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields
        .into_iter()
        .find(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// A body of any size, without keeping it: equal digests are equal bytes, as far as one can ever need here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) length: u64,
    hash: u64,
    /// The body with every number as one digit: what is left when a clock or a counter in it has gone on.
    without_numbers: u64,
    in_number: bool,
}

/// Where FNV-1a begins.
const BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

impl Default for Digest {
    fn default() -> Self {
        Self {
            length: 0,
            hash: BEGIN,
            without_numbers: BEGIN,
            in_number: false,
        }
    }
}

impl Digest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        for byte in bytes {
            self.hash = step(self.hash, *byte);
            let digit = byte.is_ascii_digit();
            if !(digit && self.in_number) {
                let byte = if digit { b'0' } else { *byte };
                self.without_numbers = step(self.without_numbers, byte);
            }
            self.in_number = digit;
        }
    }

    /// Whether the bytes are the same save for the values of numbers.
    pub(crate) const fn same_but_numbers(&self, other: &Self) -> bool {
        self.without_numbers == other.without_numbers
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes #{:016x}", self.length, self.hash)
    }
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(crate) enum WireError {
    /// No process listens on the address.
    Refused,
    /// The request was not sent whole.
    Unsent(io::Error),
    /// Reset before a byte of the answer.
    Reset(io::Error),
    /// Closed before a byte of the answer.
    Closed,
    /// So many bytes came, and then this.
    Truncated(u64, io::Error),
    /// So many bytes came in the time there was.
    TimedOut(u64),
}

impl WireError {
    pub(crate) const fn fate(&self) -> Fate {
        match self {
            Self::Refused => Fate::Refused,
            Self::Unsent(_) => Fate::Unsent,
            Self::Reset(_) => Fate::Reset,
            Self::Closed => Fate::Closed,
            Self::Truncated(..) => Fate::Truncated,
            Self::TimedOut(_) => Fate::TimedOut,
        }
    }

    pub(crate) fn new(error: io::Error, sent: bool, received: u64) -> Self {
        match error.kind() {
            _ if !sent => Self::Unsent(error),
            _ if received > 0 => Self::Truncated(received, error),
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Reset(error),
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Unsent(error) => write!(f, "not sent whole: {error}"),
            Self::Reset(error) => write!(f, "reset before a byte of the answer: {error}"),
            Self::Closed => f.write_str("closed before a byte of the answer"),
            Self::Truncated(received, error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                write!(f, "truncated: {received} bytes of the answer, then closed")
            }
            Self::Truncated(received, error) => {
                write!(
                    f,
                    "truncated: {received} bytes of the answer, then: {error}"
                )
            }
            Self::TimedOut(0) => f.write_str("timed out without a byte of the answer"),
            Self::TimedOut(received) => write!(f, "timed out after {received} bytes of the answer"),
        }
    }
}
