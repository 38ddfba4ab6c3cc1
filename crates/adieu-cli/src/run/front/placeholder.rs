//! Where the address of a generation stands in its command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What the command is to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Placeholder {
    /// `{socket}`: the path of a Unix socket.
    Socket,
    /// `{port}`: a port of the loopback address.
    Port,
}

impl Placeholder {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Socket => b"{socket}",
            Self::Port => b"{port}",
        }
    }

    /// The one that the arguments of a command have.
    pub(in crate::run) fn find(command: &[OsString]) -> Result<Self, String> {
        let arguments = command.get(1..).unwrap_or_default();
        let has = |it: Self| {
            arguments
                .iter()
                .any(|word| next(word.as_bytes(), it.text()).is_some())
        };
        match (has(Self::Socket), has(Self::Port)) {
            (true, false) => Ok(Self::Socket),
            (false, true) => Ok(Self::Port),
            (true, true) => Err(
                "--front: the command has both {socket} and {port}: leave out one of them".to_owned(),
            ),
            (false, false) => Err(
                "--front: the command has neither {socket} nor {port}: write one where it takes its address, as in \
                 `uvicorn shop:app --uds {socket}`, `gunicorn shop:app --bind unix:{socket}` or `env PORT={port} node \
                 server.js`"
                    .to_owned(),
            ),
        }
    }
}

/// The word with this value wherever the placeholder stands.
pub(super) fn fill(word: &OsStr, placeholder: Placeholder, value: &OsStr) -> OsString {
    let text = placeholder.text();
    let (mut rest, mut filled) = (word.as_bytes(), Vec::new());
    while let Some(at) = next(rest, text) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(value.as_bytes());
        rest = &rest[at + text.len()..];
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

fn next(word: &[u8], text: &[u8]) -> Option<usize> {
    word.windows(text.len()).position(|part| part == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(Into::into).collect()
    }

    #[test]
    fn one_of_them_is_wanted() {
        let find = |text| Placeholder::find(&words(text));
        assert_eq!(find("a --bind unix:{socket}"), Ok(Placeholder::Socket));
        assert_eq!(find("env PORT={port} a"), Ok(Placeholder::Port));
        for text in ["a", "{socket} a", "a {Socket} {}", "a {socket} {port}"] {
            assert!(find(text).is_err(), "{text}");
        }
    }

    #[test]
    fn it_is_filled_in_wherever_it_stands() {
        let fill = |word: &str| fill(word.as_ref(), Placeholder::Port, "80".as_ref());
        assert_eq!(fill("{port}"), "80");
        assert_eq!(fill("a{port}{port}b{{port}}"), "a8080b{80}");
        assert_eq!(fill("{socket}"), "{socket}");
        let bytes = OsString::from_vec(b"\xff{port}".to_vec());
        let filled = super::fill(&bytes, Placeholder::Port, "80".as_ref());
        assert_eq!(filled.as_bytes(), b"\xff80");
    }
}
