//! What the handler of a connection leaves to the new process.

use std::io;

use super::connection_snapshot::{MAX_STATE, RawState};

/// The state of a handler, as it goes to the new process together with its connection: a name, a version, and bytes.
///
/// The handler gives it to [`Conn::carry`](super::Conn::carry), and the new process gets it in
/// [`TcpBuilder::adopt`](super::TcpBuilder::adopt). The feature `axum` has the same for server-sent events, and the feature
/// `websocket` for WebSockets.
///
/// ```
/// use adieu::net::Carried;
///
/// let state = Carried::new("count", 1, "42").unread("half a li");
/// assert_eq!((state.name(), state.version(), state.bytes()), ("count", 1, &b"42"[..]));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Carried {
    name: String,
    version: u32,
    bytes: Vec<u8>,
    pub(super) unread: Vec<u8>,
}

/// The longest name of a state.
const MAX_NAME: usize = 128;

impl Carried {
    /// A state. Its version changes when a process of the former version would not understand its bytes.
    #[must_use]
    pub fn new(name: impl Into<String>, version: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            version,
            bytes: bytes.into(),
            unread: Vec::new(),
        }
    }

    /// What the handler has read and not handled, such as half a line: the handler in the new process reads it first.
    #[must_use]
    pub fn unread(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.unread = bytes.into();
        self
    }

    /// Whether something was read and not handled.
    #[cfg(feature = "axum")]
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// What kind of state it is.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of what its bytes mean.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a state is small enough to travel.
    pub(crate) fn check(&self) -> io::Result<()> {
        let (size, name) = (self.bytes.len(), self.name.len());
        let why = if size > MAX_STATE {
            format!(
                "a state of {size} bytes is too large to move with a connection: {MAX_STATE} at most"
            )
        } else if name > MAX_NAME {
            format!("the name of a state has {MAX_NAME} bytes at most, and this one {name}")
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    pub(crate) fn into_parts(self) -> (RawState, Vec<u8>) {
        let state = RawState {
            name: self.name,
            version: self.version,
            bytes: self.bytes,
        };
        (state, self.unread)
    }
}

impl From<RawState> for Carried {
    fn from(state: RawState) -> Self {
        Self::new(state.name, state.version, state.bytes)
    }
}

/// Without the bytes, which may be anything.
impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carried")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("size", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_cannot_travel_is_refused_with_its_size() {
        let fits = Carried::new("n".repeat(MAX_NAME), 1, vec![0; MAX_STATE]);
        fits.check().expect("it fits");
        let large = Carried::new("count", 1, vec![0; MAX_STATE + 1]);
        let error = large.check().expect_err("it is too large").to_string();
        assert_eq!(
            error,
            "a state of 65537 bytes is too large to move with a connection: 65536 at most"
        );
        let named = Carried::new("n".repeat(MAX_NAME + 1), 1, "");
        let error = named.check().expect_err("its name is too long").to_string();
        assert_eq!(
            error,
            "the name of a state has 128 bytes at most, and this one 129"
        );
    }

    #[test]
    fn its_bytes_are_not_printed() {
        let state = Carried::new("login", 1, "secret").unread("secret");
        assert_eq!(
            format!("{state:?}"),
            r#"Carried { name: "login", version: 1, size: 6, .. }"#
        );
    }
}
