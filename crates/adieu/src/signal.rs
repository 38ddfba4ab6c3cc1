//! The door: operating-system signals come in as numbers and go on as what they mean.
//!
//! The only file that knows signal numbers; `signal/windows.rs` is the one that knows console events. On Unix the
//! handler writes a byte to a pipe; a thread reads it and tells every service that listens. Handlers are there while
//! somebody listens; when the last one has gone, the signals do again what they did before.
//!
//! Whoever started the process may have blocked signals, and a mask is inherited. The thread that reads has those
//! unblocked that are ours, and no others: one thread is enough for a signal to come in, and the masks of all others are
//! their owners' affair.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::hear::Signal;
use crate::sys;

/// Who listens, and what came before anybody did.
struct Door {
    listeners: Vec<Listener>,
    /// Caught, but not yet handed to anybody.
    early: Vec<Signal>,
    /// Caught for a scope that had ended: whoever comes after it has them, or they do what they did before.
    late: Vec<Signal>,
    /// When a key was last pressed for an interrupt.
    last_press: Option<Instant>,
    /// Catches that are not yet, or still, somebody's.
    catches: usize,
    /// What was there before, and is put back.
    taken: platform::Taken,
}

static DOOR: Mutex<Door> = Mutex::new(Door {
    listeners: Vec::new(),
    early: Vec::new(),
    late: Vec::new(),
    last_press: None,
    catches: 0,
    taken: platform::NOTHING,
});

struct Listener {
    core: Arc<Core>,
    then: Then,
}

/// What becomes of the process when a service has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It ends too, with the service's exit code.
    Ends,
    /// It goes on, and signals are its own affair.
    GoesOn,
}

fn door() -> MutexGuard<'static, Door> {
    DOOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals are caught from here on; hand them to a service with [`Catch::deliver_to`].
///
/// Dropping it, or the [`Listening`] it becomes, takes the handlers away again.
pub(crate) struct Catch(());

/// A service hears of signals as long as this lives.
pub(crate) struct Listening(Arc<Core>);

/// Catches the signals that every service understands, and one more if asked to, except those that the parent process
/// has set to be ignored.
pub(crate) fn catch(one_more: Option<Signal>) -> io::Result<Catch> {
    let mut door = door();
    // A service that has ended still listens, to end the process with its exit code; the new one takes over.
    door.listeners.retain(|listener| !listener.core.has_ended());
    let late = std::mem::take(&mut door.late);
    door.early.extend(late);
    if door.catches == 0 {
        platform::install(&mut door)?;
    }
    if let Some(signal) = one_more {
        platform::install_one(&mut door, signal)?;
    }
    door.catches += 1;
    Ok(Catch(()))
}

impl Catch {
    /// From now on this service is told, of what came meanwhile as well.
    pub(crate) fn deliver_to(self, core: &Arc<Core>, then: Then) -> Listening {
        let mut door = door();
        door.catches += 1;
        door.listeners.push(Listener {
            core: Arc::clone(core),
            then,
        });
        for signal in std::mem::take(&mut door.early) {
            core.hear(signal);
        }
        Listening(Arc::clone(core))
    }
}

/// Catches one more signal, for a service that listens; the door closes for it with all others. One that does not
/// listen hears of none.
pub(crate) fn listen_for(core: &Arc<Core>, signal: Signal) -> io::Result<()> {
    let mut door = door();
    let listens = door.listeners.iter().any(|it| Arc::ptr_eq(&it.core, core));
    if listens {
        platform::install_one(&mut door, signal)?;
    }
    Ok(())
}

impl Drop for Catch {
    fn drop(&mut self) {
        leave(&mut door());
    }
}

impl Listening {
    /// Listens for ever: a signal that comes after the end ends the process at once with the report's code,
    /// instead of killing it with another one.
    pub(crate) fn for_ever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut door = door();
        door.listeners.retain(|it| !Arc::ptr_eq(&it.core, &self.0));
        leave(&mut door);
    }
}

fn leave(door: &mut Door) {
    door.catches -= 1;
    if door.catches == 0 {
        platform::uninstall(door);
        for signal in door.late.drain(..) {
            platform::raise(signal);
        }
    }
}

/// Who sent a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// Somebody at the keyboard: the kernel tells the whole foreground group.
    Terminal,
    /// A process, through `kill`.
    #[cfg_attr(
        windows,
        expect(dead_code, reason = "an event of a console has no sender")
    )]
    Process,
}

/// A key press comes in twice if a wrapper such as `timeout` or `npm` passes it on: from the terminal, and
/// within this time from the wrapper. Two signals that processes sent are two, however fast they follow.
const PASSED_ON: Duration = Duration::from_millis(20);

/// A signal has come in.
fn knock(signal: Signal, sender: Sender) {
    let listeners = {
        let mut door = door();
        if signal == Signal::Interrupt {
            match sender {
                Sender::Terminal => door.last_press = Some(Instant::now()),
                Sender::Process => {
                    let press = door.last_press.take();
                    if press.is_some_and(|press| press.elapsed() < PASSED_ON) {
                        return;
                    }
                }
            }
        }
        let living: Vec<Arc<Core>> = door.living().collect();
        if living.is_empty() {
            door.keep(signal);
        }
        living
    };
    for core in &listeners {
        core.hear(signal);
    }
}

impl Door {
    fn living(&self) -> impl Iterator<Item = Arc<Core>> {
        let living = self.listeners.iter().map(|listener| &listener.core);
        living.filter(|core| core.exit_code().is_none()).cloned()
    }

    /// A signal that nobody is there to hear: it is not lost.
    fn keep(&mut self, signal: Signal) {
        let ended = self.listeners.iter().find(|it| it.then == Then::Ends);
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
#[path = "signal/windows.rs"]
mod platform;

#[cfg(unix)]
mod platform {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;
    use std::thread;

    use super::{Door, Sender, door, knock};
    use crate::hear::Signal;
    use crate::sys;

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

    pub(super) fn install(door: &mut Door) -> io::Result<()> {
        CAUGHT
            .into_iter()
            .try_for_each(|signal| install_one(door, signal))
    }

    /// Takes a signal, unless it is taken already or the parent process has set it to be ignored.
    pub(super) fn install_one(door: &mut Door, signal: Signal) -> io::Result<()> {
        let pipe = match PIPE.get() {
            Some(pipe) => pipe,
            None => open_pipe()?,
        };
        let number = number(signal)?;
        let is_ours = door.taken.iter().any(|(it, _)| *it == number);
        if !is_ours && !sys::is_ignored(number) {
            door.taken
                .push((number, sys::install(number, &pipe.writer)?));
            pipe.tell_of(number);
        }
        Ok(())
    }

    pub(super) fn uninstall(door: &mut Door) {
        for (number, before) in door.taken.drain(..) {
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
            let taken = door().taken.iter().map(|(number, _)| *number).collect();
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
                        Ok(count @ 1..) => bytes[..count].iter().copied().for_each(take_in),
                        // A handler of somebody else's, who has not asked for calls to go on.
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(_) | Err(_) => return,
                    }
                    sys::overflowed().for_each(take_in);
                }
            })?;
        Ok(PIPE.get_or_init(|| Pipe { writer, inherited }))
    }

    fn take_in(byte: u8) {
        let (number, typed) = sys::read_byte(byte);
        let sender = if typed {
            Sender::Terminal
        } else {
            Sender::Process
        };
        match meaning(number) {
            Some(signal) => knock(signal, sender),
            None => PIPE.wait().unblock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_for_a_scope_that_has_ended_is_kept_for_whoever_comes_after() {
        let core = crate::scope("over").begin().expect("a scope").core;
        let mut door = Door {
            listeners: Vec::new(),
            early: Vec::new(),
            late: Vec::new(),
            last_press: None,
            catches: 1,
            taken: platform::NOTHING,
        };
        door.keep(Signal::Terminate);
        assert_eq!((door.early.len(), door.late.len()), (1, 0));
        door.listeners.push(Listener {
            core: Arc::clone(&core),
            then: Then::GoesOn,
        });
        assert_eq!(door.living().count(), 1);
        core.set_ended(0);
        assert_eq!(door.living().count(), 0);
        // It asks for nothing that somebody else could do.
        door.keep(Signal::User1);
        door.keep(Signal::Interrupt);
        assert_eq!(door.late, [Signal::Interrupt]);
    }
}
