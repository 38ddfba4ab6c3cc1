//! Listeners that another process has made: systemd, `adieu run`, or the service's own predecessor.
//!
//! They come as descriptors with names. `app.listen` claims the one of its name, and binds only if there is none.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use socket2::{SockRef, Socket, Type};

use super::platform::{self, Descriptor, Number};
use crate::error::Error;

/// Where a listener comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// We have bound it.
    Bound,
    /// From whoever started us, who keeps it: `LISTEN_FDS`.
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

/// A descriptor that came with the process, before somebody claims it.
#[derive(Debug)]
pub(crate) struct Heirloom {
    pub(crate) name: String,
    pub(crate) descriptor: Descriptor,
    pub(crate) origin: Origin,
    /// The file of a Unix socket that is to be removed with it.
    pub(crate) file: Option<PathBuf>,
}

/// A listener that was claimed.
pub(crate) struct Claimed {
    pub(crate) socket: Socket,
    pub(crate) origin: Origin,
    pub(crate) file: Option<PathBuf>,
    /// Where it listens, if that is not where it was asked to.
    pub(crate) elsewhere: Option<String>,
}

/// What a listener that came without a name may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kin {
    /// Serves clients: if there is only one, it is meant for it.
    Heir,
    /// Stands aside, as the admin port does.
    #[cfg(any(test, feature = "admin"))]
    Aside,
}

/// What came with the process.
#[derive(Debug, Default)]
pub(crate) struct Inheritance(Mutex<Vec<Heirloom>>);

impl Inheritance {
    fn heirlooms(&self) -> MutexGuard<'_, Vec<Heirloom>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, heirlooms: Vec<Heirloom>) {
        self.heirlooms().extend(heirlooms);
    }

    /// The listener of this name, if one has come: by its name, or by its address, or because there is only one.
    pub(crate) fn claim(
        &self,
        name: &str,
        address: &str,
        kin: Kin,
    ) -> Result<Option<Claimed>, Error> {
        let mut heirlooms = self.heirlooms();
        let Some(index) = choose(&heirlooms, name, address, kin) else {
            return Ok(None);
        };
        let heirloom = heirlooms.remove(index);
        drop(heirlooms);
        let number = platform::number_of(&heirloom.descriptor);
        let socket = Socket::from(heirloom.descriptor);
        socket
            .set_nonblocking(true)
            .and_then(|()| check(&socket))
            .map_err(|problem| {
                Error::config(format!(
                    "`{name}` was handed descriptor {number} (`{}`) to listen on, but {problem}",
                    heirloom.name
                ))
            })?;
        let elsewhere = address_of(&socket).filter(|found| !is_asked_for(found, address));
        Ok(Some(Claimed {
            socket,
            origin: heirloom.origin,
            file: heirloom.file,
            elsewhere: elsewhere.map(|found| found.to_string()),
        }))
    }

    /// What nobody has claimed: name and descriptor. It is closed here.
    pub(crate) fn leftovers(&self) -> Vec<(String, Number)> {
        let left = std::mem::take(&mut *self.heirlooms());
        left.into_iter()
            .map(|heirloom| (heirloom.name, platform::number_of(&heirloom.descriptor)))
            .collect()
    }
}

/// A name that was given comes first. systemd names a descriptor after its socket unit if told nothing else.
fn choose(heirlooms: &[Heirloom], name: &str, address: &str, kin: Kin) -> Option<usize> {
    let is_there = |heirloom: &Heirloom| {
        address_of(&heirloom.descriptor).is_some_and(|found| is_asked_for(&found, address))
    };
    let is_named = |heirloom: &Heirloom| {
        heirloom.name == name || heirloom.name.strip_suffix(".socket") == Some(name)
    };
    let nameless = |heirloom: &Heirloom| matches!(heirloom.name.as_str(), "" | "unknown");
    let heir = kin == Kin::Heir;
    // Whoever wants any port does not mean this one.
    let by_address = heir || !address.ends_with(":0");
    heirlooms
        .iter()
        .position(|heirloom| is_named(heirloom) && is_there(heirloom))
        .or_else(|| heirlooms.iter().position(is_named))
        .or_else(|| {
            heirlooms
                .iter()
                .position(|heirloom| by_address && nameless(heirloom) && is_there(heirloom))
        })
        .or_else(|| (heir && heirlooms.len() == 1 && nameless(&heirlooms[0])).then_some(0))
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
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn address_of<'socket>(socket: impl Into<SockRef<'socket>>) -> Option<Place> {
    let address = socket.into().local_addr().ok()?;
    match address.as_socket() {
        Some(address) => Some(Place::Tcp(address)),
        None => platform::path_of(&address).map(Place::Unix),
    }
}

/// Whether somebody who asked for this address means that place. A host name is not resolved for it: its port says
/// enough. Port 0 means any.
fn is_asked_for(place: &Place, asked: &str) -> bool {
    match (place, asked.strip_prefix("unix:")) {
        (Place::Unix(path), Some(asked)) => path == Path::new(asked),
        (Place::Tcp(found), None) => match asked.parse::<SocketAddr>() {
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

    fn heirloom(name: &str, descriptor: impl Into<OwnedFd>) -> Heirloom {
        Heirloom {
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

    fn inherited(heirlooms: Vec<Heirloom>) -> Inheritance {
        let inheritance = Inheritance::default();
        inheritance.add(heirlooms);
        inheritance
    }

    fn claimed(inheritance: &Inheritance, name: &str, address: &str) -> Option<String> {
        let claimed = inheritance.claim(name, address, Kin::Heir);
        let claimed = claimed.expect("a listener")?;
        Some(address_of(&claimed.socket)?.to_string())
    }

    #[test]
    fn a_name_comes_before_an_address_and_a_unit_is_a_name() {
        let ((web, on), (other, elsewhere)) = (tcp(), tcp());
        let inheritance = inherited(vec![heirloom("other", other), heirloom("web.socket", web)]);
        assert_eq!(
            claimed(&inheritance, "api", &on),
            None,
            "others' names are theirs"
        );
        let claim = inheritance
            .claim("web", &elsewhere, Kin::Heir)
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
        let inheritance = inherited(vec![heirloom("", one), heirloom("unknown", two)]);
        assert_eq!(claimed(&inheritance, "web", "127.0.0.1:1"), None);
        assert_eq!(claimed(&inheritance, "web", &second), Some(second));
        assert_eq!(claimed(&inheritance, "web", "127.0.0.1:1"), Some(first));
    }

    #[test]
    fn the_only_one_without_a_name_is_not_for_who_stands_aside() {
        let (listener, address) = tcp();
        let inheritance = inherited(vec![heirloom("", listener)]);
        let aside = |address: &str| {
            let claimed = inheritance.claim("admin", address, Kin::Aside);
            claimed.expect("no error").is_some()
        };
        assert!(!aside("127.0.0.1:1"), "another port");
        assert!(!aside("127.0.0.1:0"), "any port");
        assert!(aside(&address), "exactly this one");
        let (listener, address) = tcp();
        let inheritance = inherited(vec![heirloom("admin", listener)]);
        let claimed = inheritance.claim("admin", "127.0.0.1:1", Kin::Aside);
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
            let inheritance = inherited(vec![heirloom("web", thing)]);
            let error = inheritance
                .claim("web", "127.0.0.1:0", Kin::Heir)
                .err()
                .expect("an error");
            assert!(error.is_misuse());
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn what_nobody_claims_is_named_and_closed() {
        let (listener, address) = tcp();
        let inheritance = inherited(vec![heirloom("spare", listener)]);
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
        assert!(!is_asked_for(&Place::Unix("/run/x".into()), &address));
        assert!(is_asked_for(&Place::Unix("/run/x".into()), "unix:/run/x"));
    }
}
