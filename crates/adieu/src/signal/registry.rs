//! The registry of signals: they come in as numbers and go on as what they mean.
//!
//! `NUMBERS` says which number means what; `windows.rs` knows the events of a console. On Unix the handler writes a byte
//! to a pipe (`util/sys/signals.rs`); a thread reads it and tells every service that subscribes. Handlers are installed
//! while a service subscribes; after the last one, the signals do again what they did before.
//!
//! The parent process may have blocked signals, and a mask is inherited. The thread that reads has those
//! unblocked that are ours, and no others: one thread is enough for a signal to come in, and the masks of all others are
//! their owners' affair.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::key_press::{KeyPresses, Sender};
use crate::runtime::shared::ServiceShared;
use crate::signal::Signal;
use crate::util::sys;

/// The services that subscribe, and the signals that came before the first one did.
struct SignalRegistry {
    listeners: Vec<SignalListener>,
    /// Caught, and not yet delivered to a service.
    early: Vec<Signal>,
    /// Caught for a scope that had ended: the next service gets them, or they have their previous effect.
    late: Vec<Signal>,
    /// The interrupts whose other half may still come.
    presses: KeyPresses,
    /// Guards that are alive.
    catches: usize,
    /// What was there before, and is put back.
    taken: platform::Taken,
}

static REGISTRY: Mutex<SignalRegistry> = Mutex::new(SignalRegistry {
    listeners: Vec::new(),
    early: Vec::new(),
    late: Vec::new(),
    presses: KeyPresses::new(),
    catches: 0,
    taken: platform::NOTHING,
});

struct SignalListener {
    core: Arc<ServiceShared>,
    then: AfterEnd,
}

/// What becomes of the process when a service has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterEnd {
    /// It ends too, with the service's exit code.
    Ends,
    /// It goes on, and signals are its own affair.
    GoesOn,
}

fn registry() -> MutexGuard<'static, SignalRegistry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals are caught from here on; hand them to a service with [`SignalGuard::deliver_to`].
///
/// Dropping it, or the [`Subscription`] it becomes, takes the handlers away again.
pub(crate) struct SignalGuard(());

/// Signals are delivered to a service as long as this lives.
pub(crate) struct Subscription(Arc<ServiceShared>);

/// Catches the signals that every service understands, and one more if asked to, except those that the parent process
/// has set to be ignored.
pub(crate) fn catch(one_more: Option<Signal>) -> io::Result<SignalGuard> {
    let mut registry = registry();
    // A service that has ended still listens, to end the process with its exit code; the new one takes over.
    registry
        .listeners
        .retain(|listener| !listener.core.has_ended());
    let late = std::mem::take(&mut registry.late);
    registry.early.extend(late);
    if registry.catches == 0 {
        platform::install(&mut registry)?;
    }
    if let Some(signal) = one_more {
        platform::install_one(&mut registry, signal)?;
    }
    registry.catches += 1;
    Ok(SignalGuard(()))
}

impl SignalGuard {
    /// From now on signals are delivered to this service, those that came meanwhile as well.
    pub(crate) fn deliver_to(self, core: &Arc<ServiceShared>, then: AfterEnd) -> Subscription {
        let mut registry = registry();
        registry.catches += 1;
        registry.listeners.push(SignalListener {
            core: Arc::clone(core),
            then,
        });
        for signal in std::mem::take(&mut registry.early) {
            core.dispatch_signal(signal);
        }
        Subscription(Arc::clone(core))
    }
}

/// Catches one more signal, for a service that listens; the registry closes for it with all others. One that does not
/// listen gets none.
pub(crate) fn listen_for(core: &Arc<ServiceShared>, signal: Signal) -> io::Result<()> {
    let mut registry = registry();
    let listens = registry
        .listeners
        .iter()
        .any(|it| Arc::ptr_eq(&it.core, core));
    if listens {
        platform::install_one(&mut registry, signal)?;
    }
    Ok(())
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        release(&mut registry());
    }
}

impl Subscription {
    /// Listens forever: a signal that comes after the end ends the process at once with the report's code,
    /// instead of killing it with another one.
    pub(crate) fn for_ever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut registry = registry();
        registry
            .listeners
            .retain(|it| !Arc::ptr_eq(&it.core, &self.0));
        release(&mut registry);
    }
}

fn release(registry: &mut SignalRegistry) {
    registry.catches -= 1;
    if registry.catches == 0 {
        platform::uninstall(registry);
        for signal in registry.late.drain(..) {
            platform::raise(signal);
        }
    }
}

/// A signal has come in.
fn deliver(signal: Signal, sender: Sender) {
    let listeners = {
        let mut registry = registry();
        if signal == Signal::Interrupt && registry.presses.is_second_half(sender, Instant::now()) {
            return;
        }
        let live: Vec<Arc<ServiceShared>> = registry.live().collect();
        if live.is_empty() {
            registry.defer(signal);
        }
        live
    };
    for core in &listeners {
        core.dispatch_signal(signal);
    }
}

impl SignalRegistry {
    fn live(&self) -> impl Iterator<Item = Arc<ServiceShared>> {
        let live = self.listeners.iter().map(|listener| &listener.core);
        live.filter(|core| core.exit_code().is_none()).cloned()
    }

    /// A signal that no service is there for: it is not lost.
    fn defer(&mut self, signal: Signal) {
        let ended = self.listeners.iter().find(|it| it.then == AfterEnd::Ends);
        match ended.and_then(|listener| listener.core.exit_code()) {
            Some(code) if signal.ends() => sys::exit_now(code),
            Some(_) => {}
            // It was on its way when the last one left.
            None if self.catches == 0 => platform::raise(signal),
            None if self.listeners.is_empty() => self.early.push(signal),
            None if signal.ends() => self.late.push(signal),
            None => {}
        }
    }
}

#[cfg(windows)]
#[path = "windows.rs"]
mod platform;

#[cfg(unix)]
mod platform {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;
    use std::thread;

    use super::{Sender, SignalRegistry, deliver, registry};
    use crate::signal::Signal;
    use crate::util::sys;

    /// What every service understands.
    const CAUGHT: [Signal; 4] = [
        Signal::Terminate,
        Signal::Interrupt,
        Signal::Hangup,
        Signal::User1,
    ];

    /// Signals that have a number of their own.
    const NUMBERS: &[(i32, Signal)] = &[
        (libc::SIGTERM, Signal::Terminate),
        (libc::SIGINT, Signal::Interrupt),
        (libc::SIGHUP, Signal::Hangup),
        (libc::SIGUSR1, Signal::User1),
        (libc::SIGUSR2, Signal::User2),
        (libc::SIGQUIT, Signal::Quit),
        (libc::SIGALRM, Signal::Alarm),
        (libc::SIGCONT, Signal::Continue),
        (libc::SIGWINCH, Signal::Window),
        (libc::SIGURG, Signal::Urgent),
        (libc::SIGIO, Signal::Io),
        (libc::SIGVTALRM, Signal::VirtualAlarm),
        (libc::SIGPROF, Signal::Profile),
        (libc::SIGXCPU, Signal::CpuLimit),
        (libc::SIGXFSZ, Signal::FileLimit),
        #[cfg(target_os = "linux")]
        (libc::SIGPWR, Signal::Power),
    ];

    /// The signals that are ours, and what each did before.
    pub(super) type Taken = Vec<(i32, sys::Disposition)>;
    pub(super) const NOTHING: Taken = Vec::new();

    fn number(signal: Signal) -> io::Result<i32> {
        match signal {
            #[cfg(target_os = "linux")]
            Signal::RealTime(offset) => Some(libc::SIGRTMIN() + i32::from(offset))
                .filter(|number| *number <= libc::SIGRTMAX()),
            _ => NUMBERS
                .iter()
                .find(|(_, it)| *it == signal)
                .map(|(number, _)| *number),
        }
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this system has no such signal"))
    }

    fn meaning(number: i32) -> Option<Signal> {
        let known = NUMBERS.iter().find(|(it, _)| *it == number);
        #[cfg(target_os = "linux")]
        let known = known.map(|(_, signal)| *signal).or_else(|| {
            let offset = u8::try_from(number - libc::SIGRTMIN()).ok()?;
            Some(Signal::RealTime(offset))
        });
        #[cfg(not(target_os = "linux"))]
        let known = known.map(|(_, signal)| *signal);
        known
    }

    /// Made once with its reader, and never closed: a handler may be running in any thread at any time.
    struct Pipe {
        /// The end the handlers write to.
        writer: UnixStream,
        /// What the reader was given as its mask.
        inherited: sys::Mask,
    }

    static PIPE: OnceLock<Pipe> = OnceLock::new();

    pub(super) fn install(registry: &mut SignalRegistry) -> io::Result<()> {
        CAUGHT
            .into_iter()
            .try_for_each(|signal| install_one(registry, signal))
    }

    /// Takes a signal, unless it is taken already or the parent process has set it to be ignored.
    pub(super) fn install_one(registry: &mut SignalRegistry, signal: Signal) -> io::Result<()> {
        let pipe = match PIPE.get() {
            Some(pipe) => pipe,
            None => open_pipe()?,
        };
        let number = number(signal)?;
        let is_ours = registry.taken.iter().any(|(it, _)| *it == number);
        if !is_ours && !sys::is_ignored(number) {
            registry
                .taken
                .push((number, sys::install(number, &pipe.writer)?));
            pipe.tell_of(number);
        }
        Ok(())
    }

    pub(super) fn uninstall(registry: &mut SignalRegistry) {
        for (number, before) in registry.taken.drain(..) {
            sys::restore(number, &before);
            if let Some(pipe) = PIPE.get() {
                pipe.tell_of(number);
            }
        }
    }

    /// Has a signal do what it does without us.
    pub(super) fn raise(signal: Signal) {
        if let Ok(number) = number(signal) {
            sys::raise(number);
        }
    }

    impl Pipe {
        /// This signal is ours, or no more. Has the reader look which are, if it was given as a blocked one, which is rare.
        /// If there is no room for the byte, the reader looks all the same when it has read what is there.
        fn tell_of(&self, number: i32) {
            if self.inherited.blocks(number) {
                let _ = (&self.writer).write(&[sys::NO_SIGNAL]);
            }
        }

        /// In the thread that calls it, the signals that are ours are as they must be to come in, and all others as
        /// they were when it began.
        fn unblock(&self) {
            let taken = registry().taken.iter().map(|(number, _)| *number).collect();
            self.inherited.set_without(taken);
        }
    }

    fn open_pipe() -> io::Result<&'static Pipe> {
        let (mut reader, writer) = UnixStream::pair()?;
        // A handler must never wait.
        writer.set_nonblocking(true)?;
        // A thread has the mask of the one that makes it.
        let inherited = sys::Mask::current();
        thread::Builder::new()
            .name("adieu-signals".into())
            .spawn(move || {
                let mut bytes = [0; 16];
                loop {
                    match reader.read(&mut bytes) {
                        Ok(count @ 1..) => bytes[..count].iter().copied().for_each(on_byte),
                        // A handler of another library, without SA_RESTART.
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(_) | Err(_) => return,
                    }
                    sys::overflowed().for_each(on_byte);
                }
            })?;
        Ok(PIPE.get_or_init(|| Pipe { writer, inherited }))
    }

    fn on_byte(byte: u8) {
        let (number, origin) = sys::read_byte(byte);
        let sender = match origin {
            sys::SignalOrigin::Terminal => Sender::Terminal,
            sys::SignalOrigin::Parent => Sender::Parent,
            sys::SignalOrigin::Other => Sender::Process,
        };
        match meaning(number) {
            Some(signal) => deliver(signal, sender),
            None => PIPE.wait().unblock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_for_a_scope_that_has_ended_is_deferred_to_the_next_service() {
        let core = crate::scope("over").begin().expect("a scope").core;
        let mut registry = SignalRegistry {
            listeners: Vec::new(),
            early: Vec::new(),
            late: Vec::new(),
            presses: KeyPresses::new(),
            catches: 1,
            taken: platform::NOTHING,
        };
        registry.defer(Signal::Terminate);
        assert_eq!((registry.early.len(), registry.late.len()), (1, 0));
        registry.listeners.push(SignalListener {
            core: Arc::clone(&core),
            then: AfterEnd::GoesOn,
        });
        assert_eq!(registry.live().count(), 1);
        core.set_ended(0);
        assert_eq!(registry.live().count(), 0);
        // It asks for nothing that the next service could do.
        registry.defer(Signal::User1);
        registry.defer(Signal::Interrupt);
        assert_eq!(registry.late, [Signal::Interrupt]);
    }
}
