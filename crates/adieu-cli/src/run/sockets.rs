//! The sockets of `--listen`: opened once, never closed, handed to one generation of the command after the other.
//!
//! A TCP address has one socket for each generation that lives at a time, all on the same port, and a BPF program
//! in the kernel decides which of them new connections go to. So a new generation gets none before it is ready, and the old one gets
//! no more once it is: its accept queue can be drained before it gets the stop signal. Sockets are used again by later
//! generations; closing one would change the numbers of the others.
//!
//! A Unix socket is shared by all generations.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use adieu_os::socket::{self, sockets_of};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::address::{Address, SocketAddress, explain};
use super::command::Environment;
use super::options::CommandOptions;
use super::{log, sys};

/// A queue that overflows loses connections.
const BACKLOG: i32 = 4_096;

/// How many sockets were handed to us, as systemd does.
pub(super) fn inherited_count() -> usize {
    let number = |name| std::env::var(name).ok()?.trim().parse::<usize>().ok();
    let is_for_us = number("LISTEN_PID") == usize::try_from(std::process::id()).ok();
    number("LISTEN_FDS")
        .filter(|count| is_for_us && *count <= 1_024)
        .unwrap_or(0)
}

/// All that we hold.
#[derive(Default)]
pub(super) struct Sockets {
    ports: Vec<Port>,
    /// Which of the sockets each port gives out at present.
    serving: usize,
    /// Several workers accept from them: there is one set for all generations.
    are_shared: bool,
    /// Those that we had at the start, by inode: handed to us, or meant for the command by their number.
    lent: Vec<u64>,
}

struct Port {
    name: String,
    shown: String,
    sockets: Vec<OwnedFd>,
    /// Whether our parent process handed it to us and owns it.
    is_lent: bool,
    /// For a TCP address of our own; others are shared by all generations.
    address: Option<SocketAddr>,
    /// The file of a Unix socket of our own, removed at the end.
    file: Option<BoundFile>,
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}

/// A file that we have made. Another one may have taken its place since.
struct BoundFile {
    path: PathBuf,
    made: Option<(u64, u64)>,
}

impl BoundFile {
    fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            made: identity(path),
        }
    }

    fn remove(&self) {
        if self.made.is_some() && identity(&self.path) == self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of what is there, and not of what it may lead to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Sockets {
    /// Takes what was handed to us, which is for a command that is alone, and opens the rest: for each command its
    /// own. Before any other descriptor is opened.
    pub(super) fn open(commands: &[CommandOptions]) -> Result<Vec<Self>, String> {
        let lent: Vec<u64> = sockets_of("self").map(|(_, inode)| inode).collect();
        let inherited = inherited_count();
        if inherited > 0 && commands.len() > 1 {
            return Err(
                "sockets of the parent process (LISTEN_FDS) are for one command: open them with `listen` in the file, or \
                 run each command on its own"
                    .to_owned(),
            );
        }
        let mut inherited_ports = inherit(inherited);
        let most = commands.iter().map(|command| command.listen.len()).max();
        let count = RawFd::try_from(inherited + most.unwrap_or(0)).unwrap_or(RawFd::MAX - 3);
        if count > 0 {
            let failed = |error: io::Error| format!("cannot reserve descriptors: {error}");
            let null = std::fs::File::open("/dev/null").map_err(failed)?.into();
            sys::reserve(3..3 + count, &null).map_err(failed)?;
        }
        let mut all = Vec::new();
        for command in commands {
            let mut ports = std::mem::take(&mut inherited_ports);
            for address in &command.listen {
                let opened = Port::open(address);
                ports.push(opened.map_err(|error| explain(address, &error))?);
            }
            for port in &ports {
                log::info(format_args!("listening on {}", port.shown));
            }
            all.push(Self {
                ports,
                serving: 0,
                are_shared: command.workers > 1,
                lent: lent.clone(),
            });
        }
        Ok(all)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// A set of sockets that none of these generations uses; its number. New connections do not go there yet.
    pub(super) fn set_for_next(&mut self, in_use: &[usize]) -> usize {
        if self.are_shared {
            return self.serving;
        }
        let free = (0..).find(|number| !in_use.contains(number)).unwrap_or(0);
        for port in &mut self.ports {
            if let Err(error) = port.provide(free, self.serving) {
                // All generations on one socket: connections that the old one has just accepted are its own affair.
                log::warn(format_args!(
                    "{}: no second socket ({error}); the old and the new process share one",
                    port.shown
                ));
                return 0;
            }
        }
        free
    }

    /// The set that new connections go to.
    pub(super) const fn serving(&self) -> usize {
        self.serving
    }

    /// From now on new connections go to this set.
    pub(super) fn direct_to(&mut self, set: usize) {
        for port in &self.ports {
            port.direct(set);
        }
        self.serving = set;
    }

    /// The descriptors of a set, in the order of the command line.
    pub(super) fn of_set(&self, set: usize) -> Vec<BorrowedFd<'_>> {
        self.ports.iter().filter_map(|port| port.get(set)).collect()
    }

    /// Whether a process with one of these sets may have accepted connections that were meant for the other.
    pub(super) fn overlap(&self, one: usize, other: usize) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.index(one) == port.index(other))
    }

    /// Those of a set that new connections do not come to.
    pub(super) fn left_behind(&self, set: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_left = move |port: &&Port| port.index(set) != port.index(self.serving);
        let ports = self.ports.iter().filter(is_left);
        ports.filter_map(move |port| port.get(set))
    }

    /// Those that we have opened.
    pub(super) fn ours(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ports = self.ports.iter().filter(|port| !port.is_lent);
        ports.flat_map(|port| port.sockets.iter().map(AsFd::as_fd))
    }

    /// Those that our parent process owns, by inode. They outlive us, with what waits in their queues.
    pub(super) fn lent(&self) -> &[u64] {
        &self.lent
    }

    /// Takes the files of Unix sockets away: no new client can connect.
    pub(super) fn unlink(&mut self) {
        for port in &mut self.ports {
            if let Some(file) = port.file.take() {
                file.remove();
            }
        }
    }

    /// What the command must know of its sockets, in all three dialects.
    pub(super) fn announce(&self, environment: &mut Environment, generation: u32) {
        if self.is_empty() {
            return;
        }
        let count = self.ports.len();
        let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        environment.set("LISTEN_FDS", count.to_string());
        environment.set("LISTEN_FDNAMES", names.join(":"));
        environment.pid("LISTEN_PID");
        let numbers: Vec<String> = (3..3 + count).map(|number| number.to_string()).collect();
        environment.set("EINHORN_FDS", numbers.join(" "));
        environment.set("EINHORN_FD_COUNT", count.to_string());
        let mut starter = Vec::new();
        for ((index, number), port) in numbers.iter().enumerate().zip(&self.ports) {
            environment.set(format!("EINHORN_FD_{index}"), number);
            let place = port.shown.split_once(':').map_or("", |(_, place)| place);
            starter.push(format!("{place}={number}"));
        }
        environment.set("SERVER_STARTER_PORT", starter.join(";"));
        environment.set("SERVER_STARTER_GENERATION", generation.to_string());
    }
}

fn inherit(count: usize) -> Vec<Port> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let numbers = 3..3 + RawFd::try_from(count).unwrap_or(0);
    numbers
        .filter_map(|number| {
            let name = names.next().unwrap_or_default().to_owned();
            let socket = sys::take_inherited(number)?;
            let shown = shown(&socket).unwrap_or_else(|| format!("fd:{number}"));
            Some(Port {
                name,
                shown,
                sockets: vec![socket],
                is_lent: true,
                address: None,
                file: None,
            })
        })
        .collect()
}

/// Where a socket is. `None` for one without a name, and for a file descriptor that is not a socket: systemd passes FIFOs, too.
fn shown(socket: &OwnedFd) -> Option<String> {
    let socket = SockRef::from(socket);
    let at = socket.local_addr().ok()?;
    let kind = if socket.r#type().ok()? == Type::DGRAM {
        "udp"
    } else {
        "tcp"
    };
    match (at.as_socket(), at.as_pathname()) {
        (Some(address), _) => Some(format!("{kind}:{address}")),
        (None, Some(path)) => Some(format!("unix:{}", path.display())),
        (None, None) => None,
    }
}

impl Port {
    fn open(address: &Address) -> io::Result<Self> {
        let (socket, tcp, file) = match &address.at {
            SocketAddress::Tcp(text) => {
                let socket = first_of(text)?;
                let local = socket.local_addr()?.as_socket();
                (socket, local, None)
            }
            SocketAddress::Unix(path) => {
                let socket = bind_unix(path)?;
                (socket, None, Some(BoundFile::at(path)))
            }
        };
        let shown = match (tcp, &file) {
            (Some(address), _) => format!("tcp:{address}"),
            (None, Some(file)) => format!("unix:{}", file.path.display()),
            (None, None) => String::new(),
        };
        Ok(Self {
            name: if address.name.is_empty() {
                "unknown".to_owned()
            } else {
                address.name.clone()
            },
            shown,
            sockets: vec![socket.into()],
            is_lent: false,
            address: tcp,
            file,
        })
    }

    fn get(&self, set: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(self.index(set)).map(AsFd::as_fd)
    }

    /// A set for which there is no socket of its own has the last one.
    fn index(&self, set: usize) -> usize {
        set.min(self.sockets.len().saturating_sub(1))
    }

    /// Sees to it that there is a socket for this set, and that new connections still go where they went.
    fn provide(&mut self, set: usize, serving: usize) -> io::Result<()> {
        let Some(address) = self.address else {
            return Ok(());
        };
        while self.sockets.len() <= set {
            sys::direct(self.sockets[0].as_fd(), number(serving))?;
            let socket = tcp_socket(address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            self.sockets.push(socket.into());
        }
        Ok(())
    }

    fn direct(&self, set: usize) {
        if self.sockets.len() > 1
            && let Err(error) = sys::direct(self.sockets[0].as_fd(), number(set))
        {
            log::warn(format_args!(
                "{}: connections cannot be directed to the new process: {error}",
                self.shown
            ));
        }
    }
}

fn number(set: usize) -> u32 {
    u32::try_from(set).unwrap_or(0)
}

fn first_of(address: &str) -> io::Result<Socket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match bind_tcp(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Accepted connections inherit it. A server that is handed a socket does not set it itself where it takes it for
    // another kind, as uvicorn does, and then each answer on a keep-alive connection waits 40 ms for an acknowledgement.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn bind_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = tcp_socket(address)?;
    socket.bind(&address.into())?;
    // Only now: a port that another process listens on is taken, even if that one set SO_REUSEPORT.
    socket.set_reuse_port(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// A socket file on which no process listens is left over from one that was killed, and is replaced. Any other file
/// that is there is left alone.
fn bind_unix(path: &Path) -> io::Result<Socket> {
    let there = std::fs::symlink_metadata(path);
    let before = identity(path);
    match answers(path) {
        Ok(()) => return Err(io::ErrorKind::AddrInUse.into()),
        // Its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        _ if there.as_ref().is_ok_and(|it| !it.file_type().is_socket()) => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Unless another process has replaced it meanwhile.
        Err(error)
            if error.kind() == io::ErrorKind::ConnectionRefused && identity(path) == before =>
        {
            std::fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Whether a process listens there; without waiting for it to accept.
fn answers(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// The number by which /proc knows a socket.
pub(super) fn inode(socket: BorrowedFd<'_>) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok()?;
    socket::inode(link.to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Address>, String> {
        Address::parse_all(&[text.to_owned()])
    }

    #[test]
    fn new_connections_go_where_they_are_directed() {
        let address = parse("tcp:127.0.0.1:0").unwrap();
        let mut port = Port::open(&address[0]).unwrap();
        let at = port.address.unwrap();
        port.provide(1, 0).unwrap();
        let queues = |port: &Port| -> Vec<u32> {
            let fds = port.sockets.iter();
            fds.map(|socket| sys::queue(socket.as_fd()).unwrap())
                .collect()
        };
        let connect = || -> Vec<_> {
            (0..20)
                .map(|_| std::net::TcpStream::connect(at).unwrap())
                .collect()
        };
        let before = connect();
        assert_eq!(queues(&port), [20, 0], "none before it is ready");
        port.direct(1);
        let after = connect();
        assert_eq!(queues(&port), [20, 20], "none to the old one afterwards");
        drop((before, after));
    }

    #[test]
    fn a_port_with_reuseport_of_another_process_is_taken() {
        let other = tcp_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        other.set_reuse_port(true).unwrap();
        other
            .bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into())
            .unwrap();
        other.listen(1).unwrap();
        let at = other.local_addr().unwrap().as_socket().unwrap();
        let error = bind_tcp(at).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
