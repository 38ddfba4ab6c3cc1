//! What a command says of itself: READY=1, WATCHDOG=1 and the like, in systemd's way, to a socket of ours; and what
//! we say to our own supervisor, such as systemd.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::{log, procfs, sys};

/// What one generation has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NotifyState {
    pub(super) ready: bool,
    /// When it last said that it is alive.
    pub(super) alive: Option<Instant>,
    /// The process that it named as the one to look at.
    pub(super) main: Option<u32>,
}

/// A socket for one generation. Closed when dropped.
pub(super) struct NotifySocket {
    /// As it stands in NOTIFY_SOCKET.
    pub(super) name: String,
    pub(super) said: watch::Receiver<NotifyState>,
    line: Arc<NotifyLine>,
    reader: AbortHandle,
}

/// Where messages arrive, and where they are published.
struct NotifyLine {
    socket: AsyncFd<OwnedFd>,
    tell: watch::Sender<NotifyState>,
    /// Whether the state of this generation is of interest any more.
    is_leaving: AtomicBool,
}

impl NotifyLine {
    /// Hears all that has come; fails if nothing is left, or for good.
    fn read_all(&self) -> io::Result<()> {
        loop {
            // What comes from a stranger is passed over.
            if let Some(text) = receive(self.socket.get_ref().as_fd())? {
                self.hear(&text);
            }
        }
    }

    fn hear(&self, text: &str) {
        self.tell.send_modify(|said| {
            for line in text.lines() {
                match line.split_once('=') {
                    Some(("READY", "1")) => {
                        said.ready = true;
                        said.alive = Some(Instant::now());
                    }
                    Some(("WATCHDOG", "1")) => said.alive = Some(Instant::now()),
                    Some(("MAINPID", pid)) => said.main = pid.trim().parse().ok().or(said.main),
                    // For people, who read our status.
                    Some(("STATUS", status)) if !self.is_leaving.load(Ordering::Relaxed) => {
                        tell_outside(&format!("STATUS={status}"));
                    }
                    _ => {}
                }
            }
        });
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl NotifySocket {
    /// In the abstract namespace: there is no file to be left behind, and a read-only file system will do. By a name
    /// that no other process in the network namespace can have taken before.
    pub(super) fn open() -> io::Result<Self> {
        let random = || RandomState::new().build_hasher().finish();
        let name = format!("adieu-run-{:016x}{:016x}", random(), random());
        let address = SocketAddr::from_abstract_name(&name)?;
        let socket = UnixDatagram::bind_addr(&address)?;
        socket.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        let socket = sys::on_runtime(socket.into())?;
        let (tell, said) = watch::channel(NotifyState::default());
        let line = Arc::new(NotifyLine {
            socket,
            tell,
            is_leaving: false.into(),
        });
        let theirs = Arc::clone(&line);
        let reader = tokio::spawn(async move {
            while let Ok(mut ready) = theirs.socket.readable().await {
                // An error to `try_io` is that there is nothing left for now.
                if ready.try_io(|_| theirs.read_all()).is_ok() {
                    return;
                }
            }
        });
        Ok(Self {
            name: format!("@{name}"),
            said,
            line,
            reader: reader.abort_handle(),
        })
    }
}

impl NotifySocket {
    /// Hears what has come and was not read yet.
    pub(super) fn read_all(&self) {
        let _ = self.line.read_all();
    }

    /// What it says of its state is not passed on from here on: another generation serves.
    pub(super) fn leave(&self) {
        self.line.is_leaving.store(true, Ordering::Relaxed);
    }

    /// The process that was named will not do.
    pub(super) fn forget_main(&self) {
        self.line.tell.send_modify(|said| said.main = None);
    }
}

/// One message; `None` if its sender is neither below us nor of our user.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<String>> {
    let mut text = [0; 4_096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [io::IoSliceMut::new(&mut text)],
        &mut control,
        RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
    )?;
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender),
        _ => None,
    });
    let is_known = sender.is_some_and(|sender| {
        let pid = u32::try_from(sender.pid.as_raw_nonzero().get()).unwrap_or(0);
        sender.uid == rustix::process::geteuid() || procfs::is_below_us(pid)
    });
    let text = String::from_utf8_lossy(&text[..received.bytes]);
    Ok(is_known.then(|| text.into_owned()))
}

/// Sends this to our own supervisor, if NOTIFY_SOCKET names one.
pub(super) fn tell_outside(text: &str) {
    // Once: with a watchdog it would be said forever.
    static WAS_SAID: AtomicBool = AtomicBool::new(false);
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    let told = || -> io::Result<()> {
        let shown = name.to_string_lossy();
        let address = match shown.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(text.as_bytes(), &address)?;
        Ok(())
    };
    if let Err(error) = told()
        && !WAS_SAID.swap(true, Ordering::Relaxed)
    {
        log::warn(format_args!("NOTIFY_SOCKET does not listen: {error}"));
    }
}

/// A new process is being started; `READY=1` follows, whether it gets ready or not.
pub(super) fn tell_reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    tell_outside(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Sends WATCHDOG=1 twice in the interval that our own supervisor asks for. The command has a watchdog of ours.
pub(super) fn stay_alive() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    if let Some(micros @ 1..) = number("WATCHDOG_USEC").filter(|_| is_meant) {
        tokio::spawn(async move {
            let mut interval =
                tokio::time::interval(Duration::from_micros((micros / 2).max(1_000)));
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                interval.tick().await;
                tell_outside("WATCHDOG=1");
            }
        });
    }
}
