//! The first signal that ends this program; on Windows, the first event of the console.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose};

/// Caught from here on.
#[cfg(unix)]
pub(crate) struct Interrupt([(i32, Signal); 4]);

#[cfg(unix)]
impl Interrupt {
    pub(crate) fn catch() -> io::Result<Self> {
        let hear = |kind: SignalKind| Ok::<_, io::Error>((kind.as_raw_value(), signal(kind)?));
        Ok(Self([
            hear(SignalKind::interrupt())?,
            hear(SignalKind::terminate())?,
            hear(SignalKind::hangup())?,
            // Also because a shell has its background jobs ignore it, and every process started here would, too.
            hear(SignalKind::quit())?,
        ]))
    }

    /// Its number. Cancel-safe.
    pub(crate) async fn heard(&mut self) -> i32 {
        let [
            (interrupt, first),
            (terminate, second),
            (hang_up, third),
            (quit, fourth),
        ] = &mut self.0;
        tokio::select! {
            _ = first.recv() => *interrupt,
            _ = second.recv() => *terminate,
            _ = third.recv() => *hang_up,
            _ = fourth.recv() => *quit,
        }
    }
}

/// Caught from here on.
#[cfg(windows)]
pub(crate) struct Interrupt(CtrlC, CtrlBreak, CtrlClose);

#[cfg(windows)]
impl Interrupt {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self(
            windows::ctrl_c()?,
            windows::ctrl_break()?,
            windows::ctrl_close()?,
        ))
    }

    /// The number of the signal that means the same elsewhere: SIGINT for Ctrl-C, else SIGTERM. Cancel-safe.
    pub(crate) async fn heard(&mut self) -> i32 {
        tokio::select! {
            _ = self.0.recv() => 2,
            _ = self.1.recv() => 15,
            _ = self.2.recv() => 15,
        }
    }
}
