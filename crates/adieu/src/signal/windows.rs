//! The registry on Windows, where there are no signals: events of the console.
//!
//! | event | means |
//! |---|---|
//! | Ctrl-C | what SIGINT means: stops, then hurries, then ends |
//! | Ctrl-Break | what SIGTERM means; the only one that a process can send to a group other than its own |
//! | close, logoff, shutdown | what SIGTERM means, but Windows ends the process some seconds later |
//!
//! Windows calls the handler on a thread of its own making. tokio's wakes every waiting task, and for the last three it
//! never returns, because the process would be ended if it did. A thread of ours waits, and tells the services.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::runtime;
use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown};
use tokio::sync::oneshot;

use super::{Sender, SignalRegistry, deliver, registry};
use crate::signal::Signal;

/// The watch that was set up last. Dropping it ends its thread; without one the console does what it always does.
pub(super) type Taken = Option<Watch>;
pub(super) const NOTHING: Taken = None;

pub(super) struct Watch {
    number: u64,
    _until: oneshot::Sender<Infallible>,
}

struct Events {
    interrupt: CtrlC,
    r#break: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Events {
    fn take() -> io::Result<Self> {
        Ok(Self {
            interrupt: windows::ctrl_c()?,
            r#break: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            logoff: windows::ctrl_logoff()?,
            shutdown: windows::ctrl_shutdown()?,
        })
    }

    /// The next one. Cancel-safe: an event is either given out or still there.
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.r#break.recv() => Signal::Break,
            _ = self.close.recv() => Signal::Close,
            _ = self.logoff.recv() => Signal::Logoff,
            _ = self.shutdown.recv() => Signal::Shutdown,
        }
    }
}

pub(super) fn install(registry: &mut SignalRegistry) -> io::Result<()> {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    // Taken here and not on the thread: from here on none is lost.
    let mut events = Events::take()?;
    let runtime = runtime::Builder::new_current_thread().build()?;
    let (until, mut over) = oneshot::channel::<Infallible>();
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let wait = async move {
        loop {
            // The future that loses is dropped with the thread, or polled again.
            let signal = tokio::select! {
                biased;
                _ = &mut over => return,
                signal = events.next() => signal,
            };
            // A watch that is over may still hear what the next one hears too.
            if is_current(number) {
                // A key press goes once to every process of the console; no parent process passes it on.
                deliver(signal, Sender::Terminal);
            }
        }
    };
    thread::Builder::new()
        .name("adieu-signals".into())
        .spawn(move || runtime.block_on(wait))?;
    registry.taken = Some(Watch {
        number,
        _until: until,
    });
    Ok(())
}

fn is_current(number: u64) -> bool {
    registry()
        .taken
        .as_ref()
        .is_some_and(|watch| watch.number == number)
}

/// Ctrl-Break is heard already; there is nothing else that could be.
pub(super) fn install_one(_: &mut SignalRegistry, signal: Signal) -> io::Result<()> {
    if signal == Signal::Break {
        return Ok(());
    }
    let why = "Windows has no such signal; Ctrl-Break (`Signal::Break`) can be bound there";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

pub(super) fn uninstall(registry: &mut SignalRegistry) {
    registry.taken = None;
}

/// An event goes to all processes of a console, so it cannot be sent again to one. Windows handles the next one itself.
pub(super) const fn raise(_: Signal) {}
