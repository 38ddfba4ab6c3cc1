//! Listeners that another process has made: systemd, `adieu run`, or the service's own predecessor.
//!
//! They come as descriptors with names. `app.listen` claims the one of its name, and binds only if there is none.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use socket2::{SockRef, Socket, Type};

use super::os::{self, Descriptor, Number, SocketFile};
use crate::error::Error;

/// Where a listener comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// We have bound it.
    Bound,
    /// From the parent process, which keeps it: `LISTEN_FDS`.
    Parent {
        /// Its number when it came.
        descriptor: Number,
    },
    /// Handed over by the process that served before us.
    Predecessor {
        /// Its process id.
        pid: u32,
        /// Whether it was that one's to close; it is ours now, then.
        ours: bool,
    },
}

/// A descriptor that came with the process, before a listener of the service claims it.
#[derive(Debug)]
pub(crate) struct InheritedFd {
    pub(crate) name: String,
    pub(crate) descriptor: Descriptor,
    pub(crate) origin: Origin,
    /// The file of a Unix socket that is to be removed with it.
    pub(crate) file: Option<SocketFile>,
}

/// A listener that was claimed.
pub(crate) struct Claimed {
    pub(crate) socket: Socket,
    pub(crate) origin: Origin,
    pub(crate) file: Option<SocketFile>,
    /// Where it listens, if that is not where it was asked to.
    pub(crate) elsewhere: Option<String>,
}

/// What a listener that came without a name may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimKind {
    /// Serves clients: if there is only one, it is meant for it.
    Service,
    /// Stands aside, as the admin port does.
    #[cfg(any(test, feature = "admin"))]
    Admin,
}

/// What came with the process.
#[derive(Debug, Default)]
pub(crate) struct InheritedFds(Mutex<Vec<InheritedFd>>);

impl InheritedFds {
    fn inherited_fds(&self) -> MutexGuard<'_, Vec<InheritedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, inherited_fds: Vec<InheritedFd>) {
        self.inherited_fds().extend(inherited_fds);
    }

    /// The listener of this name, if one has come: by its name, or by its address, or because there is only one.
    pub(crate) fn claim(
        &self,
        name: &str,
        address: &str,
        kind: ClaimKind,
    ) -> Result<Option<Claimed>, Error> {
        let mut inherited_fds = self.inherited_fds();
        let Some(index) = choose(&inherited_fds, name, address, kind) else {
            return Ok(None);
        };
        let inherited_fd = inherited_fds.remove(index);
        drop(inherited_fds);
        let number = os::number_of(&inherited_fd.descriptor);
        let socket = Socket::from(inherited_fd.descriptor);
        socket
            .set_nonblocking(true)
            .and_then(|()| check(&socket))
            .map_err(|problem| {
                Error::config(format!(
                    "`{name}` was handed descriptor {number} (`{}`) to listen on, but {problem}",
                    inherited_fd.name
                ))
            })?;
        let elsewhere = address_of(&socket).filter(|found| !is_asked_for(found, address));
        Ok(Some(Claimed {
            socket,
            origin: inherited_fd.origin,
            file: inherited_fd.file,
            elsewhere: elsewhere.map(|found| found.to_string()),
        }))
    }

    /// What no listener of the service has claimed: name and descriptor. It is closed here.
    pub(crate) fn leftovers(&self) -> Vec<(String, Number)> {
        let left = std::mem::take(&mut *self.inherited_fds());
        left.into_iter()
            .map(|inherited_fd| (inherited_fd.name, os::number_of(&inherited_fd.descriptor)))
            .collect()
    }
}

/// A name that was given comes first. systemd names a descriptor after its socket unit if told nothing else.
fn choose(
    inherited_fds: &[InheritedFd],
    name: &str,
    address: &str,
    kind: ClaimKind,
) -> Option<usize> {
    let is_there = |inherited_fd: &InheritedFd| {
        address_of(&inherited_fd.descriptor).is_some_and(|found| is_asked_for(&found, address))
    };
    let is_named = |inherited_fd: &InheritedFd| {
        inherited_fd.name == name || inherited_fd.name.strip_suffix(".socket") == Some(name)
    };
    let nameless =
        |inherited_fd: &InheritedFd| matches!(inherited_fd.name.as_str(), "" | "unknown");
    let heir = kind == ClaimKind::Service;
    // An admin port that asks for any port does not mean this one.
    let by_address = heir || !address.ends_with(":0");
    inherited_fds
        .iter()
        .position(|inherited_fd| is_named(inherited_fd) && is_there(inherited_fd))
        .or_else(|| inherited_fds.iter().position(is_named))
        .or_else(|| {
            inherited_fds.iter().position(|inherited_fd| {
                by_address && nameless(inherited_fd) && is_there(inherited_fd)
            })
        })
        .or_else(|| (heir && inherited_fds.len() == 1 && nameless(&inherited_fds[0])).then_some(0))
}

/// Whether connections can be accepted from it.
fn check(socket: &Socket) -> io::Result<()> {
    let no = |why: &str| Err(io::Error::other(why.to_owned()));
    match socket.r#type() {
        Err(error) => no(&format!("it is not a socket: {error}")),
        Ok(kind) if kind != Type::STREAM => {
            no("it is not a stream socket: use ListenStream= in the socket unit")
        }
        Ok(_) if socket.peer_addr().is_ok() => {
            no("it is a connection and not a listener: use Accept=no in the socket unit")
        }
        Ok(_) => Ok(()),
    }
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn address_of<'socket>(socket: impl Into<SockRef<'socket>>) -> Option<ListenAddress> {
    let address = socket.into().local_addr().ok()?;
    match address.as_socket() {
        Some(address) => Some(ListenAddress::Tcp(address)),
        None => os::path_of(&address).map(ListenAddress::Unix),
    }
}

/// Whether an address as it was given in `setup` means that socket. A host name is not resolved for it: its port says
/// enough. Port 0 means any.
fn is_asked_for(place: &ListenAddress, asked: &str) -> bool {
    match (place, asked.strip_prefix("unix:")) {
        (ListenAddress::Unix(path), Some(asked)) => path == Path::new(asked),
        (ListenAddress::Tcp(found), None) => match asked.parse::<SocketAddr>() {
            Ok(asked) if asked.port() == 0 => asked.ip() == found.ip(),
            Ok(asked) => asked == *found,
            Err(_) => asked
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok())
                .is_some_and(|port| port == 0 || port == found.port()),
        },
        _ => false,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::OwnedFd;

    use super::*;

    fn inherited_fd(name: &str, descriptor: impl Into<OwnedFd>) -> InheritedFd {
        InheritedFd {
            name: name.to_owned(),
            descriptor: descriptor.into(),
            origin: Origin::Parent { descriptor: 3 },
            file: None,
        }
    }

    fn tcp() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        (listener, address)
    }

    fn inherited(inherited_fds: Vec<InheritedFd>) -> InheritedFds {
        let inheritance = InheritedFds::default();
        inheritance.add(inherited_fds);
        inheritance
    }

    fn claimed(inheritance: &InheritedFds, name: &str, address: &str) -> Option<String> {
        let claimed = inheritance.claim(name, address, ClaimKind::Service);
        let claimed = claimed.expect("a listener")?;
        Some(address_of(&claimed.socket)?.to_string())
    }

    #[test]
    fn a_name_comes_before_an_address_and_a_unit_is_a_name() {
        let ((web, on), (other, elsewhere)) = (tcp(), tcp());
        let inheritance = inherited(vec![
            inherited_fd("other", other),
            inherited_fd("web.socket", web),
        ]);
        assert_eq!(
            claimed(&inheritance, "api", &on),
            None,
            "others' names are theirs"
        );
        let claim = inheritance
            .claim("web", &elsewhere, ClaimKind::Service)
            .expect("a listener")
            .expect("there");
        assert_eq!(claim.elsewhere, Some(on), "it says that it is elsewhere");
        assert_eq!(claimed(&inheritance, "web", &elsewhere), None);
        assert_eq!(
            claimed(&inheritance, "other", "localhost:0"),
            Some(elsewhere)
        );
    }

    #[test]
    fn without_names_the_address_decides_and_then_being_alone() {
        let ((one, first), (two, second)) = (tcp(), tcp());
        let inheritance = inherited(vec![inherited_fd("", one), inherited_fd("unknown", two)]);
        assert_eq!(claimed(&inheritance, "web", "127.0.0.1:1"), None);
        assert_eq!(claimed(&inheritance, "web", &second), Some(second));
        assert_eq!(claimed(&inheritance, "web", "127.0.0.1:1"), Some(first));
    }

    #[test]
    fn a_single_listener_without_a_name_is_not_for_the_admin_port() {
        let (listener, address) = tcp();
        let inheritance = inherited(vec![inherited_fd("", listener)]);
        let aside = |address: &str| {
            let claimed = inheritance.claim("admin", address, ClaimKind::Admin);
            claimed.expect("no error").is_some()
        };
        assert!(!aside("127.0.0.1:1"), "another port");
        assert!(!aside("127.0.0.1:0"), "any port");
        assert!(aside(&address), "exactly this one");
        let (listener, address) = tcp();
        let inheritance = inherited(vec![inherited_fd("admin", listener)]);
        let claimed = inheritance.claim("admin", "127.0.0.1:1", ClaimKind::Admin);
        let claimed = claimed.expect("no error").expect("it has the name");
        assert_eq!(claimed.elsewhere, Some(address));
    }

    #[test]
    fn what_cannot_be_listened_on_is_an_error_that_says_why() {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let file = tempfile::tempfile().expect("a file");
        let (_listener, address) = tcp();
        let connection = std::net::TcpStream::connect(address).expect("a connection");
        for (thing, problem) in [
            (OwnedFd::from(udp), "not a stream socket"),
            (OwnedFd::from(file), "not a socket"),
            (OwnedFd::from(connection), "a connection and not a listener"),
        ] {
            let inheritance = inherited(vec![inherited_fd("web", thing)]);
            let error = inheritance
                .claim("web", "127.0.0.1:0", ClaimKind::Service)
                .err()
                .expect("an error");
            assert!(error.is_misuse());
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn unclaimed_listeners_are_named_and_closed() {
        let (listener, address) = tcp();
        let inheritance = inherited(vec![inherited_fd("spare", listener)]);
        let left = inheritance.leftovers();
        assert_eq!(left[0].0, "spare");
        assert!(TcpListener::bind(address).is_ok(), "the port is free again");
    }

    #[test]
    fn port_zero_and_host_names_are_generous() {
        let (listener, address) = tcp();
        let place = address_of(&listener).expect("an address");
        let port = place
            .to_string()
            .rsplit_once(':')
            .expect("a port")
            .1
            .to_owned();
        assert!(is_asked_for(&place, "127.0.0.1:0"));
        assert!(is_asked_for(&place, &address));
        assert!(is_asked_for(&place, &format!("localhost:{port}")));
        assert!(!is_asked_for(&place, "127.0.0.2:0"));
        assert!(!is_asked_for(&place, "unix:/run/x"));
        assert!(!is_asked_for(
            &ListenAddress::Unix("/run/x".into()),
            &address
        ));
        assert!(is_asked_for(
            &ListenAddress::Unix("/run/x".into()),
            "unix:/run/x"
        ));
    }
}
