//! What can be said with `--listen` and `--front`.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// What stands behind `--listen` and `--front`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(super) name: String,
    pub(super) at: SocketAddress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SocketAddress {
    Tcp(String),
    Unix(PathBuf),
}

impl Address {
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        for text in texts {
            let address = Self::parse("--listen", text)?;
            if !text.ends_with(":0") && all.iter().any(|it| it.at == address.at) {
                return Err(format!("--listen {text}: the same socket twice"));
            }
            all.push(address);
        }
        Ok(all)
    }

    pub(super) fn parse(option: &str, text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').unwrap_or(("", text));
        let is_name = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if !name.chars().all(is_name) || (name.is_empty() && text.starts_with('=')) {
            return Err(format!(
                "{option} {text}: a name has letters, digits and -_. only"
            ));
        }
        let at = if let Some(path) = address
            .strip_prefix("unix:")
            .filter(|it| it.starts_with('/'))
        {
            SocketAddress::Unix(path.into())
        } else if let Some(address) = address.strip_prefix("tcp:").filter(|it| has_port(it)) {
            SocketAddress::Tcp(address.to_owned())
        } else {
            return Err(format!(
                "{option} {text}: give tcp:host:port or unix:/path, as in tcp:0.0.0.0:8000"
            ));
        };
        Ok(Self {
            name: name.to_owned(),
            at,
        })
    }
}

impl Address {
    /// Where it is, as in `127.0.0.1:8080` or `/run/orders.sock`.
    pub(super) fn place(&self) -> Cow<'_, str> {
        match &self.at {
            SocketAddress::Tcp(address) => address.into(),
            SocketAddress::Unix(path) => path.to_string_lossy(),
        }
    }

    /// Whether a client that connects to this place, `host:port` or a path, reaches this socket.
    pub(super) fn is_at(&self, place: &str) -> bool {
        let address = match &self.at {
            SocketAddress::Unix(path) => return path.to_str() == Some(place),
            SocketAddress::Tcp(address) => address,
        };
        let (Some((ours, port)), Some((host, theirs))) =
            (address.rsplit_once(':'), place.rsplit_once(':'))
        else {
            return false;
        };
        let is_everywhere = ["0.0.0.0", "[::]"].contains(&ours);
        let is_here =
            |host: &str| host.starts_with("127.") || ["localhost", "[::1]"].contains(&host);
        port == theirs && (is_everywhere || ours == host || (is_here(ours) && is_here(host)))
    }
}

/// Whether this is a host and a port.
pub(super) fn has_port(address: &str) -> bool {
    address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.at {
            SocketAddress::Tcp(address) => write!(f, "tcp:{address}"),
            SocketAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why the address cannot be listened on, and what to do.
pub(super) fn explain(address: &Address, error: &io::Error) -> String {
    let is_file = matches!(address.at, SocketAddress::Unix(_));
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is already in use; stop the other process, or choose another address"
                .to_owned()
        }
        io::ErrorKind::AlreadyExists => {
            "a file exists that is not a socket, and is left alone; choose another path".to_owned()
        }
        io::ErrorKind::NotFound if is_file => "its directory does not exist".to_owned(),
        io::ErrorKind::InvalidInput if is_file => {
            "the path of a socket has at most 107 bytes".to_owned()
        }
        io::ErrorKind::PermissionDenied if is_file => {
            "permission denied; its directory is not ours to write in".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot listen on {address}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Address>, String> {
        Address::parse_all(&[text.to_owned()])
    }

    #[test]
    fn addresses_are_read() {
        for text in [
            "tcp:0.0.0.0:8000",
            "api=tcp:[::]:0",
            "a.b-c=unix:/run/a.sock",
        ] {
            assert_eq!(parse(text).map(|all| all.len()), Ok(1), "{text}");
        }
        for text in [
            "",
            "8000",
            "tcp:8000",
            "tcp:host",
            "tcp::80",
            "unix:a.sock",
            "=tcp:a:80",
            "a:b=tcp:a:80",
            "udp:a:80",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let twice = ["tcp:a:80".to_owned(), "b=tcp:a:80".to_owned()];
        assert!(Address::parse_all(&twice).is_err());
    }
}
