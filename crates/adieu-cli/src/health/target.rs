//! Whom to ask, and what.

use std::fmt;
use std::path::PathBuf;

/// A place to connect to, and the path to ask for if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(super) place: Place,
    pub(super) question: Option<Question>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `host:port`, with the brackets of an IPv6 address.
    Tcp(String),
    Unix(PathBuf),
}

/// What stands in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) host: String,
    pub(super) path: String,
}

impl Target {
    /// `http://host:port/path` or `unix:/path/of.socket:/path`.
    pub(crate) fn url(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("unix:") {
            let (socket, path) = rest
                .rsplit_once(":/")
                .map_or((rest, "/".to_owned()), |it| (it.0, format!("/{}", it.1)));
            return Ok(Self {
                place: unix(socket)?,
                question: Some(Question {
                    host: "localhost".to_owned(),
                    path: sendable(path)?,
                }),
            });
        }
        if after_scheme(text, "https:").is_some() {
            return Err(
                "https is not supported: use a port that speaks http, or only connect with --tcp"
                    .to_owned(),
            );
        }
        let Some(rest) = after_scheme(text, "http://") else {
            return Err(format!(
                "`{}` is not a URL: it begins with http:// or unix:/",
                without_secrets(text)
            ));
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "a health check sends no user name and no password: leave them out of the URL"
                    .to_owned(),
            );
        }
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            place: tcp(authority, Some(80))?,
            question: Some(Question {
                host: authority.to_owned(),
                path: sendable(path)?,
            }),
        })
    }

    /// Where it is, as in `127.0.0.1:8080` or `/run/orders.sock`.
    #[cfg(target_os = "linux")]
    pub(crate) fn place(&self) -> std::borrow::Cow<'_, str> {
        match &self.place {
            Place::Tcp(address) => address.into(),
            Place::Unix(path) => path.to_string_lossy(),
        }
    }

    /// Its question to another place: the socket at this path, or a port of this machine.
    #[cfg(target_os = "linux")]
    pub(crate) fn moved_to(&self, place: Result<&std::path::Path, u16>) -> Self {
        Self {
            place: match place {
                Ok(path) => Place::Unix(path.to_owned()),
                Err(port) => Place::Tcp(format!("127.0.0.1:{port}")),
            },
            question: self.question.clone(),
        }
    }

    /// `host:port` or `unix:/path/of.socket`, only to connect to.
    pub(crate) fn address(text: &str) -> Result<Self, String> {
        let place = match text.strip_prefix("unix:") {
            Some(socket) => unix(socket)?,
            None => tcp(text, None)?,
        };
        Ok(Self {
            place,
            question: None,
        })
    }
}

fn unix(socket: &str) -> Result<Place, String> {
    if !socket.starts_with('/') {
        return Err(format!(
            "invalid socket `unix:{socket}`: give its path from the root, as in unix:/run/orders.sock"
        ));
    }
    Ok(Place::Unix(socket.into()))
}

fn tcp(authority: &str, default: Option<u16>) -> Result<Place, String> {
    // What follows the last colon is the port, unless it is inside an IPv6 address.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => default,
    };
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    match port {
        Some(port) if !host.is_empty() && !is_bare_v6 => Ok(Place::Tcp(format!("{host}:{port}"))),
        _ => Err(format!(
            "invalid address `{authority}`: give host and port, as in 127.0.0.1:8080 or [::1]:8080"
        )),
    }
}

/// A path that stays on its line of the request.
fn sendable(path: String) -> Result<String, String> {
    if path.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(path)
    } else {
        Err(
            "the path has characters that a URL cannot have: write them as %20 and so on"
                .to_owned(),
        )
    }
}

/// The text without what stands before an `@`, which may be a password.
fn without_secrets(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(address) if self.question.is_some() => write!(f, "http://{address}")?,
            Place::Tcp(address) => f.write_str(address)?,
            Place::Unix(path) if self.question.is_some() => write!(f, "unix:{}:", path.display())?,
            Place::Unix(path) => write!(f, "unix:{}", path.display())?,
        }
        self.question
            .as_ref()
            .map_or(Ok(()), |question| f.write_str(&question.path))
    }
}

/// What follows a scheme, which may be written in any case.
fn after_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (beginning, rest) = text.split_at_checked(scheme.len())?;
    beginning.eq_ignore_ascii_case(scheme).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (url, shown) in [
            ("http://localhost", "http://localhost:80/"),
            ("http://localhost:8080", "http://localhost:8080/"),
            ("HTTP://localhost:8080", "http://localhost:8080/"),
            ("http://[::1]:8080/a?b#c", "http://[::1]:8080/a?b"),
            ("http://[::1]/a", "http://[::1]:80/a"),
            ("http://host?ready", "http://host:80/?ready"),
            ("unix:/run/a.sock", "unix:/run/a.sock:/"),
            ("unix:/run/a.sock:/readyz", "unix:/run/a.sock:/readyz"),
        ] {
            assert_eq!(Target::url(url).map(|it| it.to_string()), Ok(shown.into()));
        }
        let only = |address| Target::address(address).map(|it| it.to_string());
        assert_eq!(only("[::1]:80"), Ok("[::1]:80".into()));
        assert_eq!(only("unix:/run/a.sock"), Ok("unix:/run/a.sock".into()));
    }

    #[test]
    fn nonsense_is_refused_and_no_password_repeated() {
        for url in [
            "",
            "localhost:80",
            "https://localhost",
            "HTTPS://localhost",
            "ht",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:99999",
            "http://a:http",
            "http://::1/",
            "http://me:hunter2@host/",
            "ftp://me:hunter2@host/",
            "http://a/\r\nx: y",
            "unix:a.sock",
        ] {
            let refused = Target::url(url).expect_err(url);
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        for address in ["", "localhost", "host:", ":80", "::1", "unix:a"] {
            assert!(Target::address(address).is_err(), "{address}");
        }
    }
}
