//! Connections that a generation left in its queue when it ended. No process accepts them any more, and a queue cannot
//! be moved to another socket: we accept them, and pass them on to the generation that serves.

use std::io;
use std::net::TcpStream as Plain;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{SocketFlags, accept_with};
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::worker::Worker;
use super::{log, sys};

/// The last bytes of a server that has ended are relayed for no longer than this.
const RELAY_AFTER_EXIT: Duration = Duration::from_secs(1);

/// How many are running.
#[derive(Default)]
pub(super) struct Relays(watch::Sender<usize>);

impl Relays {
    /// Completes when none is running, or the server's last bytes have had their time. Cancel-safe.
    pub(super) async fn done(&self) {
        let mut count = self.0.subscribe();
        let none = count.wait_for(|count| *count == 0);
        let _ = timeout(RELAY_AFTER_EXIT, none).await;
    }
}

/// Passes on what waits in the queues of this set. The generation must have ended: no other process accepts from its
/// sockets.
pub(super) fn rescue(worker: &Arc<Worker>, set: usize) {
    let left: Vec<OwnedFd> = {
        let sockets = worker.sockets();
        sockets.left_behind(set).flat_map(accept_all).collect()
    };
    if left.is_empty() {
        return;
    }
    log::warn(format_args!(
        "{} left in its queue: passed on to the one that serves",
        left.len()
    ));
    for client in left {
        worker.command.relays.0.send_modify(|count| *count += 1);
        let worker = Arc::clone(worker);
        tokio::spawn(async move {
            // A connection that fails is closed, which is all that can be told.
            let _ = timeout(worker.grace(), pass_on(client)).await;
            worker.command.relays.0.send_modify(|count| *count -= 1);
        });
    }
}

/// The flags of the socket are shared with all processes that have it, so they are put back for the new process.
fn accept_all(socket: BorrowedFd<'_>) -> Vec<OwnedFd> {
    if !sys::queue(socket).is_ok_and(|count| count > 0) {
        return Vec::new();
    }
    let Ok(flags) = fcntl_getfl(socket) else {
        return Vec::new();
    };
    if fcntl_setfl(socket, flags | OFlags::NONBLOCK).is_err() {
        return Vec::new();
    }
    let options = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let all = std::iter::from_fn(|| accept_with(socket, options).ok()).collect();
    let _ = fcntl_setfl(socket, flags);
    all
}

/// To the address that the client has asked for: seen by the server, it comes from there, and from the loopback
/// address, which servers trust, only if the client used that itself.
async fn pass_on(client: OwnedFd) -> io::Result<()> {
    let mut client = TcpStream::from_std(Plain::from(client))?;
    let mut server = TcpStream::connect(client.local_addr()?).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asks = async {
        let _ = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        std::future::pending::<()>().await;
    };
    // It is over when the server has closed: a client may keep its end open forever.
    tokio::select! {
        () = asks => {}
        answered = copy(&mut from_server, &mut to_client) => drop(answered?),
    }
    to_client.shutdown().await
}
