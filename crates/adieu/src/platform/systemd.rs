//! Notifications to systemd, if it asks for them: ready, stopping, how much longer, still alive.
//!
//! It asks with `NOTIFY_SOCKET`; without that there is no thread and no message. The messages go out on a thread of
//! their own, in order: systemd may be busy, and the stop does not wait for it.

use std::env;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use adieu_lifecycle::Time;
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

use crate::report::Notice;
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::util::duration::show;
use crate::util::printable;
use crate::util::sys;

/// What the end of the process takes, at most, after the grace is over.
const EXIT_MARGIN: Duration = Duration::from_secs(2);
/// How long the last message may take to go out.
const LAST_MESSAGE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a manager may take to read what was said.
#[cfg(all(feature = "net", target_os = "linux"))]
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);

enum Saying {
    Lines(String),
    /// All before it has gone out.
    Mark(SyncSender<()>),
    /// Closed by systemd when it has read all before it.
    #[cfg(all(feature = "net", target_os = "linux"))]
    Barrier(std::os::unix::net::UnixStream),
}

/// The way to systemd.
#[derive(Clone)]
pub(crate) struct Systemd {
    tell: Sender<Saying>,
    grace: Duration,
    /// When stopping began.
    stopping: OnceLock<Time>,
    /// Another process speaks for the unit.
    is_silent: Arc<AtomicBool>,
}

impl Extension for Systemd {
    fn on_notice(&self, notice: &Notice, now: Time) {
        self.describe(notice, now);
    }

    fn on_reload_started(&self) {
        self.reloading();
    }

    fn on_serving(&self, _: &ServiceShared) {
        self.ready();
    }

    fn after_report(&self) {
        self.finish();
    }
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
                            // If systemd does not read any more, the message is lost.
                            Saying::Lines(lines) => drop(socket.send(lines.as_bytes())),
                            Saying::Mark(mark) => drop(mark.send(())),
                            #[cfg(all(feature = "net", target_os = "linux"))]
                            Saying::Barrier(end) => {
                                use std::os::fd::AsFd;
                                let (socket, end) = (socket.as_fd(), end.as_fd());
                                drop(sys::send_message(socket, b"BARRIER=1", Some(end)));
                            }
                        }
                    }
                })?;
            Ok(tell)
        });
        match begun {
            Ok(tell) => Some(Self {
                tell,
                grace,
                stopping: OnceLock::new(),
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

    /// Setup is done and every server listens.
    fn ready(&self) {
        self.send("READY=1\nSTATUS=running\n".to_owned());
    }

    /// Another process is the service from now on; this one has nothing more to say.
    fn replaced_by(&self, pid: u32) {
        self.send(format!("MAINPID={pid}\nREADY=1\nSTATUS=running\n"));
        self.is_silent.store(true, Ordering::Release);
    }

    /// This process is the service from now on, in the place of its parent.
    #[cfg(feature = "net")]
    fn speak(&self, parent: u32) {
        self.is_silent.store(false, Ordering::Release);
        #[cfg(target_os = "linux")]
        self.name_again_after(parent);
    }

    /// Names this process as the main one once more when its parent has ended.
    ///
    /// systemd notes only when it is given a main process whether that is a child of its own. This one was the child of
    /// the process before it then, and for a main process that is not its child systemd does not wait: at a stop, SIGKILL
    /// follows SIGTERM at once. The kernel makes it a child of systemd when the parent ends. systemd ignores the name of
    /// the main process that it has, so a process of ours that does nothing is named in between.
    #[cfg(all(feature = "net", target_os = "linux"))]
    fn name_again_after(&self, parent: u32) {
        let systemd = self.clone();
        let waiting = thread::Builder::new()
            .name("adieu-parent".into())
            .spawn(move || {
                if sys::await_any_end(parent).is_err() || !is_child_of_systemd() {
                    return;
                }
                if let Ok(between) = sys::IdleChild::start() {
                    systemd.send(format!("MAINPID={}\n", between.id()));
                    systemd.send(format!(
                        "MAINPID={}\nSTATUS=running, took over from process {parent}\n",
                        std::process::id()
                    ));
                    // A process that has ended by the time its name is read is not taken.
                    systemd.await_read();
                }
            });
        if let Err(error) = waiting {
            tracing::warn!(target: "adieu", %error, "systemd will not know this process as its own child");
        }
    }

    /// Everything that is said, and when.
    fn describe(&self, notice: &Notice, now: Time) {
        match notice {
            Notice::Opening { part } => self.send(status(&format!("starting: opening {part}"))),
            Notice::Stopping { cause } => {
                let _ = self.stopping.set(now);
                let mut lines = format!("STOPPING=1\n{}", status(&format!("stopping: {cause}")));
                self.extend(now, &mut lines);
                self.send(lines);
            }
            Notice::Phase { phase, budget } => {
                let mut lines = status(&format!("stopping: {phase}, at most {}", show(*budget)));
                self.extend(now, &mut lines);
                self.send(lines);
            }
            Notice::Reloaded { .. } => {
                self.send("READY=1\nSTATUS=running, reloaded\n".to_owned());
            }
            Notice::ReloadRefused { part, .. } => {
                let text = format!("running; {part} refused the reload");
                self.send(format!("READY=1\n{}", status(&text)));
            }
            Notice::HandOffBegun { .. } => self.reloading(),
            Notice::HandOffFailed { why } => {
                let text = format!("running; the hand-off failed: {why}");
                self.send(format!("READY=1\n{}", status(&text)));
            }
            #[cfg(feature = "net")]
            Notice::TookOver { pid } => self.speak(*pid),
            Notice::HandedOver { pid } => self.replaced_by(*pid),
            Notice::Ended { exit } => self.send(status(&format!("ended: {}", exit.meaning()))),
            _ => {}
        }
    }

    /// Until when it may take; told again with each phase, because a message can be lost.
    fn extend(&self, now: Time, lines: &mut String) {
        let since = now.saturating_sub(*self.stopping.get().unwrap_or(&now));
        let left = self.grace.saturating_sub(since) + EXIT_MARGIN;
        let _ = writeln!(lines, "EXTEND_TIMEOUT_USEC={}", left.as_micros());
    }

    /// The configuration is being read again; `READY=1` follows when that is done.
    fn reloading(&self) {
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

    /// Waits until systemd has read all that was said before: it closes what it is handed with a barrier.
    #[cfg(all(feature = "net", target_os = "linux"))]
    fn await_read(&self) {
        if let Ok((ours, theirs)) = std::os::unix::net::UnixStream::pair() {
            let _ = self.tell.send(Saying::Barrier(theirs));
            let _ = ours.set_read_timeout(Some(BARRIER_TIMEOUT));
            let _ = io::Read::read(&mut &ours, &mut [0]);
        }
    }

    /// Waits a moment until all was said.
    fn finish(&self) {
        let (mark, marked) = mpsc::sync_channel(1);
        if self.tell.send(Saying::Mark(mark)).is_ok() {
            let _ = marked.recv_timeout(LAST_MESSAGE_TIMEOUT);
        }
    }
}

/// Whether the process above this one is a manager of systemd; another supervisor needs no second name.
#[cfg(all(feature = "net", target_os = "linux"))]
fn is_child_of_systemd() -> bool {
    let parent = std::os::unix::process::parent_id();
    std::fs::read(format!("/proc/{parent}/comm")).is_ok_and(|name| name == b"systemd\n")
}

/// The line that `systemctl status` shows. What others wrote must not add lines: `MAINPID=1` would be one.
fn status(text: &str) -> String {
    format!("STATUS={}\n", printable::name(text))
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

/// A path, or a name with `@` in front, which is not a file.
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
