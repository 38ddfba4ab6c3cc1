//! The head of an HTTP/1 answer.

use std::io;

/// What the head of an answer says about what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Three digits.
    pub status: u16,
    /// Whether the server means to read another request from the connection.
    pub keep_alive: bool,
    /// How the end of the body is known.
    pub body: Body,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// After so many bytes.
    Length(u64),
    /// After the chunk of no bytes.
    Chunked,
    /// When the connection ends.
    UntilClose,
}

impl Head {
    /// Where the head ends, if all of it is here.
    #[must_use]
    pub fn end(bytes: &[u8]) -> Option<usize> {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        Some(at + 4)
    }

    /// Whether the answer is still to come, as after `103 Early Hints`.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..200)
    }

    /// Reads a whole head.
    ///
    /// # Errors
    ///
    /// If it is none of HTTP/1.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let old = first.starts_with("HTTP/1.0 ");
        let status: u16 = first
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| first.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        let mut head = Self {
            status,
            keep_alive: !old,
            body: match status {
                100..200 | 204 | 304 => Body::Length(0),
                _ => Body::UntilClose,
            },
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| io::ErrorKind::InvalidData)?;
                // Some servers tell of a 304 how long the body would have been.
                if head.body == Body::UntilClose {
                    head.body = Body::Length(length);
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.body = Body::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                let says = |word: &str| {
                    value
                        .split(',')
                        .any(|one| one.trim().eq_ignore_ascii_case(word))
                };
                head.keep_alive = !says("close") && (!old || says("keep-alive"));
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.as_bytes()).expect("a head")
    }

    #[test]
    fn a_connection_is_kept_unless_one_of_the_words_is_close() {
        assert!(head("HTTP/1.1 200 OK\r\n\r\n").keep_alive);
        assert!(!head("HTTP/1.1 200 OK\r\nConnection: Upgrade, close\r\n\r\n").keep_alive);
        assert!(!head("HTTP/1.0 200 OK\r\n\r\n").keep_alive);
        assert!(head("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\n\r\n").keep_alive);
    }

    #[test]
    fn the_end_of_a_body_is_known() {
        assert_eq!(
            head("HTTP/1.1 200\r\ncontent-length: 7\r\n\r\n").body,
            Body::Length(7)
        );
        assert_eq!(
            head("HTTP/1.1 304\r\ncontent-length: 7\r\n\r\n").body,
            Body::Length(0)
        );
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").body, Body::UntilClose);
        assert!(Head::parse(b"SSH-2.0\r\n\r\n").is_err());
    }
}
