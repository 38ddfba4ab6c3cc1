//! The command's accept queue is drained before the stop signal is forwarded.
//!
//! A server that closes its listening socket resets every connection in its queue. So the socket is made to
//! refuse new connections first. The server goes on accepting those in the queue, and gets the stop signal when the
//! queue has been quiet. The server needs no code for it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use adieu_os::socket::{TcpRow, cloak, sockets_of};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tokio::time::Instant;

use super::backlog::{self, ProcSockets};
use super::{log, procfs, sockets, sys};

/// Quiet means no connection in any queue for so long: longer than most round trips, because the last step of a
/// handshake may still be on its way.
const QUEUE_QUIET_TIME: Duration = Duration::from_millis(150);
/// A server that has accepted no connection for so long may be stuck. A lower bound: with a longer grace period a slow
/// server has more time, see [`until_quiet`].
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// How often the queue is looked at: the kernel has no event for an empty one.
const QUEUE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How much of a table is read at once.
const READ: usize = 64 * 1_024;

/// Listening sockets that refuse new connections.
pub(super) struct CloakedSockets {
    sockets: Vec<OwnedFd>,
    /// Those of which we have no copy.
    listed: ProcSockets,
    had_traffic: bool,
}

/// Hides our own sockets, and those that these processes listen on; not those that were lent to us, whose owner
/// would have them back deaf.
pub(super) fn hide(own: Vec<OwnedFd>, lent: &[u64], below: &[u32]) -> CloakedSockets {
    let known: HashSet<u64> = own
        .iter()
        .filter_map(|socket| sockets::inode(socket.as_fd()))
        .chain(lent.iter().copied())
        .collect();
    let found = listening(&known, below, SocketTable::read);
    let (listed, denied) = hide_traced(found.inaccessible);
    let had_traffic = found.had_traffic;
    let count = found.sockets.len() + listed.len();
    let sockets: Vec<OwnedFd> = own
        .into_iter()
        .chain(found.sockets)
        .filter(|socket| is_hidden(socket.as_fd()))
        .collect();
    if let Some(Inaccessible { pid, why, .. }) = denied {
        log::warn(format_args!(
            "the accept queue of {} ({pid}) cannot be drained ({why}): connections that wait in it are lost if the \
             command does not accept them",
            procfs::name(pid)
        ));
    }
    let hidden = sockets.len() + listed.len();
    if hidden > 0 {
        let plural = if hidden == 1 { "" } else { "s" };
        log::info(format_args!(
            "{hidden} listening socket{plural} closed to new connections ({count} of the command's own)"
        ));
    }
    CloakedSockets {
        sockets,
        listed,
        had_traffic,
    }
}

/// No client reaches a Unix socket of ours any more: its file is gone.
fn is_hidden(socket: BorrowedFd<'_>) -> bool {
    let is_unix = socket_domain(socket).is_ok_and(|it| it == AddressFamily::UNIX);
    is_unix || (sys::queue(socket).is_ok() && cloak(socket).is_ok())
}

impl CloakedSockets {
    /// Completes when the queues have been quiet, at once if there was no traffic. Cancel-safe.
    pub(super) async fn drained(&self, most: Duration) {
        let waiting = || {
            let queues = self.sockets.iter().map(|it| backlog::len(it.as_fd()));
            queues.sum::<u32>() + self.listed.waiting()
        };
        let is_any = !self.sockets.is_empty() || self.listed.len() > 0;
        if is_any && (self.had_traffic || waiting() > 0) {
            say_left(until_quiet(waiting, most).await);
        }
    }
}

/// Logs the connections that are still queued: they may be reset.
fn say_left(count: u32) {
    match count {
        0 => {}
        1 => log::warn("1 connection is still in the accept queue; sending the stop signal anyway"),
        _ => log::warn(format_args!(
            "{count} connections are still in the accept queue; sending the stop signal anyway"
        )),
    }
}

/// Completes when the queue has been empty for long enough, when the server seems to be stuck, or when the time is up.
/// Gives back how many connections wait still. Cancel-safe.
///
/// A server on a busy machine, or one that takes seconds for each request, is slow to empty its queue and not stuck:
/// one that was seen to accept has all the time there is. One that hangs accepts none, and half of the time shows it.
pub(super) async fn until_quiet(waiting: impl Fn() -> u32, most: Duration) -> u32 {
    let begun = Instant::now();
    let stuck = STUCK_AFTER.max(most / 2);
    let (mut busy, mut is_taken_from, mut left) = (begun, false, waiting());
    while busy.elapsed() < QUEUE_QUIET_TIME
        && (is_taken_from || begun.elapsed() < stuck)
        && begun.elapsed() < most
    {
        tokio::time::sleep(QUEUE_LOOK_INTERVAL).await;
        let now = waiting();
        is_taken_from |= now < left;
        left = now;
        if now > 0 {
            busy = Instant::now();
        }
    }
    left
}

#[derive(Default)]
struct Found {
    sockets: Vec<OwnedFd>,
    had_traffic: bool,
    inaccessible: Vec<Inaccessible>,
}

/// The sockets of a process that we could not take: number and inode of each, and why.
struct Inaccessible {
    pid: u32,
    sockets: Vec<(i32, u64)>,
    why: io::Error,
}

/// Has each process hide its sockets itself, which we trace for that. Also gives back the one that it did not work for.
fn hide_traced(mut inaccessible: Vec<Inaccessible>) -> (ProcSockets, Option<Inaccessible>) {
    let mut listed = ProcSockets::default();
    for process in &mut inaccessible {
        process.sockets.retain(|(_, inode)| !listed.has(*inode));
        if process.sockets.is_empty() {
            continue;
        }
        match sys::trace::hide(process.pid, &process.sockets) {
            Ok(hidden) => listed.add(process.pid, hidden),
            // The first reason is the one to do something about.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => process.why = error,
        }
    }
    // What one process denies, another may have given.
    let is_left = |process: &Inaccessible| process.sockets.iter().any(|(_, it)| !listed.has(*it));
    let left = inaccessible.into_iter().find(is_left);
    (listed, left)
}

/// Takes the sockets that these processes listen on, except those we know. Also says whether any socket that listens
/// has had a connection lately.
///
/// The table of a namespace is read for a process that has a socket, and once: it is as long as there are connections
/// on the machine, whosever they are.
fn listening(known: &HashSet<u64>, processes: &[u32], read: impl Fn(u32) -> SocketTable) -> Found {
    let mut found = Found::default();
    let mut taken = known.clone();
    let mut tables: HashMap<String, SocketTable> = HashMap::new();
    for &pid in processes {
        let sockets: Vec<(i32, u64)> = sockets_of(&pid.to_string()).collect();
        if sockets.is_empty() {
            continue;
        }
        let namespace = fs::read_link(format!("/proc/{pid}/ns/net"));
        let namespace = namespace.map_or_else(|_| pid.to_string(), |it| it.display().to_string());
        let table = tables.entry(namespace).or_insert_with(|| read(pid));
        let (mut pidfd, mut inaccessible, mut why) = (None, Vec::new(), None);
        for (number, inode) in sockets {
            let Some(port) = table.listening.get(&inode) else {
                continue;
            };
            found.had_traffic |= table.busy.contains(port);
            if !taken.insert(inode) {
                continue;
            }
            match take(pid, number, &mut pidfd) {
                Ok(socket) => found.sockets.push(socket),
                Err(error) => {
                    taken.remove(&inode);
                    inaccessible.push((number, inode));
                    why = Some(error);
                }
            }
        }
        if let Some(why) = why {
            found.inaccessible.push(Inaccessible {
                pid,
                sockets: inaccessible,
                why,
            });
        }
    }
    // What one process denies, another may have given.
    for process in &mut found.inaccessible {
        process.sockets.retain(|(_, inode)| !taken.contains(inode));
    }
    found
}

/// Why the accept queue of a command could not be drained at a stop, if that can be seen at its start; with what to do.
pub(super) fn warning(pid: u32, name: &str) -> Option<String> {
    if !procfs::is_mounted() {
        return Some(format!(
            "/proc shows other processes than those of this namespace: the listening sockets of {name} cannot be found, \
             so its accept queue cannot be drained at a stop, and connections in it are lost. Mount it anew, as with unshare \
             --mount-proc; or {}",
            remedy(name)
        ));
    }
    let refused = match take(pid, 0, &mut None) {
        Ok(_) => return None,
        Err(error) => error,
    };
    // It may have no such descriptor, and may have ended.
    let is_about_it = [Some(libc::EPERM), Some(libc::EACCES), Some(libc::ENOSYS)];
    if !is_about_it.contains(&refused.raw_os_error()) {
        return None;
    }
    match sys::trace::is_possible(pid) {
        Ok(()) => None,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        Err(_) => Some(format!(
            "the accept queue of {name} cannot be drained at a stop here (pidfd_getfd: {refused}): connections in it \
             are lost. Allow it, as with docker run --cap-add SYS_PTRACE; or {}",
            remedy(name)
        )),
    }
}

/// What works everywhere.
fn remedy(name: &str) -> String {
    let command = match name {
        "uvicorn" => "uvicorn … --fd 3",
        "gunicorn" => "gunicorn …` (without --bind: it takes the socket by LISTEN_FDS) `",
        "hypercorn" => "hypercorn … --bind fd://3",
        _ => "COMMAND",
    };
    format!(
        "have adieu open the socket: `adieu run --listen tcp:0.0.0.0:8000 -- {command}` (docs/run.md says how each server \
         takes it). A command that listens on no TCP port: --no-cloak"
    )
}

fn take(pid: u32, number: i32, pidfd: &mut Option<OwnedFd>) -> io::Result<OwnedFd> {
    if pidfd.is_none() {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        *pidfd = Some(pidfd_open(pid, PidfdFlags::empty())?);
    }
    let pidfd = pidfd.as_ref().ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?)
}

/// The TCP sockets of one network namespace.
#[derive(Default)]
struct SocketTable {
    /// Sockets that listen, by inode, with their ports.
    listening: HashMap<u64, u16>,
    /// Ports with connections, or with some that ended lately.
    busy: HashSet<u16>,
}

impl SocketTable {
    fn read(pid: u32) -> Self {
        let mut table = Self::default();
        for name in ["tcp", "tcp6"] {
            let Ok(file) = fs::File::open(format!("/proc/{pid}/net/{name}")) else {
                continue;
            };
            table.read_from(BufReader::with_capacity(READ, file));
        }
        table
    }

    /// Reads one file: first come the sockets that listen, then the connections, of which a busy machine has a hundred
    /// thousand. Ends as soon as every port that this file has a listener for is known to be busy.
    fn read_from(&mut self, mut file: impl BufRead) {
        let mut silent: HashSet<u16> = HashSet::new();
        let mut line = String::new();
        while file.read_line(&mut line).is_ok_and(|count| count > 0) {
            match self.add(&line) {
                Some(TableLine::Listener(port)) => {
                    silent.insert(port);
                }
                Some(TableLine::Connection(port)) => {
                    silent.remove(&port);
                    if silent.is_empty() {
                        return;
                    }
                }
                None => {}
            }
            line.clear();
        }
    }

    fn add(&mut self, line: &str) -> Option<TableLine> {
        let row = TcpRow::parse(line)?;
        let port = row.local_port()?;
        if row.is_listening() {
            self.listening.insert(row.inode()?, port);
            Some(TableLine::Listener(port))
        } else {
            self.busy.insert(port);
            Some(TableLine::Connection(port))
        }
    }
}

/// What a line of a table is about, with the local port.
enum TableLine {
    Listener(u16),
    Connection(u16),
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How long it waits for a queue that has so many in it and lets one go each time, and how many it gives up.
    async fn waits(first: u32, each: Duration, most: Duration) -> (Duration, u32) {
        let begun = Instant::now();
        let left = || {
            let gone = begun.elapsed().as_millis() / each.as_millis();
            first.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX))
        };
        let given_up = until_quiet(left, most).await;
        (begun.elapsed(), given_up)
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_has_its_time_as_long_as_the_server_accepts() {
        let (second, long) = (Duration::from_secs(1), Duration::from_secs(60));
        let near = |(took, left): (Duration, u32), wanted: Duration, given_up: u32| {
            assert!(took.abs_diff(wanted) <= QUEUE_LOOK_INTERVAL * 3, "{took:?}");
            assert_eq!(left, given_up, "after {took:?}");
        };
        near(waits(0, second, long).await, QUEUE_QUIET_TIME, 0);
        // Slower than a second in all, and never stuck; nor is one that takes longer for each.
        let slow = Duration::from_millis(200);
        near(waits(32, slow, long).await, slow * 32 + QUEUE_QUIET_TIME, 0);
        near(
            waits(4, second * 9, long).await,
            second * 36 + QUEUE_QUIET_TIME,
            0,
        );
        near(waits(4, second * 29, long).await, long, 2);
        // A server that accepts none is signalled while there is time, and at once where there is little of it.
        near(waits(32, long, long).await, long / 2, 32);
        near(waits(32, long, second * 3 / 2).await, STUCK_AFTER, 32);
        near(waits(32, slow, second).await, second, 27);
        // One that comes late, from a handshake half done, starts the quiet again.
        let begun = Instant::now();
        let asked = Cell::new(0);
        let late = || {
            asked.set(asked.get() + 1);
            u32::from(asked.get() == 20)
        };
        until_quiet(late, long).await;
        assert!(
            begun.elapsed() > QUEUE_QUIET_TIME + QUEUE_LOOK_INTERVAL * 15,
            "{:?}",
            begun.elapsed()
        );
    }

    #[test]
    fn the_table_is_read_for_a_process_that_has_a_socket() {
        let reads = Cell::new(0);
        let look = |process: u32| {
            let read = |pid| {
                reads.set(reads.get() + 1);
                SocketTable::read(pid)
            };
            listening(&HashSet::new(), &[process, process], read)
                .sockets
                .len()
        };
        let mut without = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!((look(without.id()), reads.get()), (0, 0));
        drop(without.stdin.take());
        without.wait().unwrap();
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(look(std::process::id()) >= 1);
        assert_eq!(reads.get(), 1);
    }

    #[test]
    fn the_table_knows_who_listens_and_who_was_there() {
        let mut table = SocketTable::default();
        for line in [
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0",
            "   1: 0100007F:1F90 0100007F:8000 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0",
            "nonsense",
        ] {
            table.add(line);
        }
        assert_eq!(table.listening, HashMap::from([(12345, 8080)]));
        assert_eq!(table.busy, HashSet::from([8080]));
    }

    #[test]
    fn a_table_is_read_until_each_listening_port_is_known_to_be_busy() {
        let listener = |port, inode| {
            format!(
                "0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0\n"
            )
        };
        let connection = |port| {
            format!(
                "1: 0100007F:{port:04X} 0100007F:8000 06 00000000:00000000 03:00000000 00000000 0 0 0 3 0\n"
            )
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n".to_owned();
        let decided = [
            head,
            listener(80, 1),
            listener(81, 2),
            connection(81),
            connection(80),
        ]
        .concat();
        let text = [decided.clone(), connection(82).repeat(1_000)].concat();
        let mut rest = text.as_bytes();
        let mut table = SocketTable::default();
        table.read_from(&mut rest);
        assert_eq!(table.busy, HashSet::from([80, 81]));
        assert_eq!(rest.len(), text.len() - decided.len());
        // That a port has no connection is known at the end of the file.
        let text = [listener(83, 3), connection(82).repeat(10)].concat();
        let mut rest = text.as_bytes();
        table.read_from(&mut rest);
        assert!(rest.is_empty());
        // Without a listener there is nothing to find out.
        let text = connection(82).repeat(10);
        let mut rest = text.as_bytes();
        table.read_from(&mut rest);
        assert_eq!(rest.len(), text.len() - connection(82).len());
    }
}
