//! What systemd is told, if it asks: ready, stopping, how much longer, still alive.
//!
//! It asks with `NOTIFY_SOCKET`; without that there is no thread and no message. The messages go out on a thread of
//! their own, in order: systemd may be busy, and the stop does not wait for it.

use std::env;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

use crate::duration::show;
use crate::lifecycle::Time;
use crate::report::Notice;
use crate::sys;

/// What the end of the process takes, at most, after the grace is over.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// How long the last message may take to go out.
const LAST_WORD: Duration = Duration::from_millis(200);

enum Saying {
    Lines(String),
    /// All before it has gone out.
    Mark(SyncSender<()>),
}

/// The way to systemd.
#[derive(Clone)]
pub(crate) struct Systemd {
    tell: Sender<Saying>,
    grace: Duration,
    /// When stopping began.
    stopping: Option<Time>,
    /// Another process speaks for the unit.
    is_silent: Arc<AtomicBool>,
}

impl Systemd {
    /// If systemd asks to be told. What asks may also be another supervisor that speaks its protocol.
    /// A successor is silent until it has taken over.
    pub(crate) fn listening(grace: Duration, is_successor: bool) -> Option<Self> {
        let address = env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty())?;
        let begun = connect(address.as_bytes()).and_then(|socket| {
            let (tell, told) = mpsc::channel();
            thread::Builder::new()
                .name("adieu-systemd".into())
                .spawn(move || {
                    for saying in told {
                        match saying {
                            // Whoever does not listen any more has missed it.
                            Saying::Lines(lines) => drop(socket.send(lines.as_bytes())),
                            Saying::Mark(mark) => drop(mark.send(())),
                        }
                    }
                })?;
            Ok(tell)
        });
        match begun {
            Ok(tell) => Some(Self {
                tell,
                grace,
                stopping: None,
                is_silent: Arc::new(is_successor.into()),
            }),
            Err(error) => {
                let address = address.to_string_lossy();
                tracing::warn!(target: "adieu", %error, "NOTIFY_SOCKET={address} cannot be reached: not notified");
                None
            }
        }
    }

    fn send(&self, lines: String) {
        if !self.is_silent.load(Ordering::Acquire) {
            // The thread ends after its senders, never before.
            let _ = self.tell.send(Saying::Lines(lines));
        }
    }

    /// Set-up is done and every server listens.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=running\n".to_owned());
    }

    /// Another process is the service from now on; this one has nothing more to say.
    fn replaced_by(&self, pid: u32) {
        self.send(format!("MAINPID={pid}\nREADY=1\nSTATUS=running\n"));
        self.is_silent.store(true, Ordering::Release);
    }

    /// This process is the service from now on.
    #[cfg(feature = "net")]
    pub(crate) fn speak(&self) {
        self.is_silent.store(false, Ordering::Release);
    }

    /// Everything that is said, and when.
    pub(crate) fn hear(&mut self, notice: &Notice, now: Time) {
        match notice {
            Notice::Opening { part } => self.send(format!("STATUS=starting: opening {part}\n")),
            Notice::Stopping { cause } => {
                self.stopping = Some(now);
                let mut lines = format!("STOPPING=1\nSTATUS=stopping: {cause}\n");
                self.extend(now, &mut lines);
                self.send(lines);
            }
            Notice::Phase { phase, budget } => {
                let mut lines = format!("STATUS=stopping: {phase}, at most {}\n", show(*budget));
                self.extend(now, &mut lines);
                self.send(lines);
            }
            Notice::Reloaded { .. } => {
                self.send("READY=1\nSTATUS=running, reloaded\n".to_owned());
            }
            Notice::ReloadRefused { part, .. } => {
                self.send(format!(
                    "READY=1\nSTATUS=running; {part} refused the reload\n"
                ));
            }
            Notice::HandOffBegun { .. } => self.reloading(),
            Notice::HandOffFailed { why } => {
                self.send(format!(
                    "READY=1\nSTATUS=running; the hand-off failed: {why}\n"
                ));
            }
            Notice::HandedOver { pid } => self.replaced_by(*pid),
            Notice::Ended { exit } => self.send(format!("STATUS=ended: {}\n", exit.meaning())),
            _ => {}
        }
    }

    /// Until when it may take; told again with each phase, because a message can be lost.
    fn extend(&self, now: Time, lines: &mut String) {
        let since = now.saturating_sub(self.stopping.unwrap_or(now));
        let left = self.grace.saturating_sub(since) + AFTERWARDS;
        let _ = writeln!(lines, "EXTEND_TIMEOUT_USEC={}", left.as_micros());
    }

    /// The configuration is being read again; `READY=1` follows when that is done.
    pub(crate) fn reloading(&self) {
        let now = sys::monotonic_now().as_micros();
        self.send(format!(
            "RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reloading\n"
        ));
    }

    /// Says again and again that the runtime is alive, if systemd wants to hear it: from the runtime, because only
    /// one that still runs its tasks can say so.
    pub(crate) fn watch(&self, runtime: &Handle, is_successor: bool) {
        let Some(limit) = watchdog_limit(is_successor) else {
            return;
        };
        let systemd = self.clone();
        runtime.spawn(async move {
            let mut interval = tokio::time::interval(limit / 2);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                interval.tick().await;
                systemd.send("WATCHDOG=1\n".to_owned());
            }
        });
    }

    /// Waits a moment until all was said.
    pub(crate) fn finish(&self) {
        let (mark, marked) = mpsc::sync_channel(1);
        if self.tell.send(Saying::Mark(mark)).is_ok() {
            let _ = marked.recv_timeout(LAST_WORD);
        }
    }
}

/// How long systemd waits for a sign of life, if it does. A process that was not started by systemd itself but took
/// over from one that was is meant as well.
fn watchdog_limit(is_successor: bool) -> Option<Duration> {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let is_meant = is_successor
        || number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_meant)?;
    Some(Duration::from_micros(micros).max(Duration::from_millis(2)))
}

/// A path, or a name with `@` in front that is no file.
fn connect(address: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match address {
        [b'/', ..] => socket.connect(std::ffi::OsStr::from_bytes(address))?,
        [b'@', name @ ..] => socket.connect_addr(&abstract_address(name)?)?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it begins with neither / nor @",
            ));
        }
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
