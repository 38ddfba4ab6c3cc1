//! The side that hands over: starts the next process, waits until it serves, and then stops. Or goes on.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::MakeCommand;
use super::letter::{Item, Letter, VARIABLE};
use crate::core::Core;
use crate::duration::show;
use crate::lifecycle::Cause;
use crate::net::Bequest;
use crate::report::Notice;
use crate::{panics, sys};

/// How long the next process may take from `go` to `serving`: it only has to accept.
const OPENING: Duration = Duration::from_secs(10);
/// How long a next process that failed may take to end by itself.
const ENDING: Duration = Duration::from_secs(2);
/// How long one that was killed may take to be gone: a moment, unless the machine is very busy.
const KILLED: Duration = Duration::from_millis(250);

/// The hand-off of one service.
#[derive(Default)]
pub(crate) struct HandOff {
    state: Mutex<State>,
    /// Rings when a process that was being started runs, or does not.
    started: Condvar,
    #[cfg(feature = "admin")]
    last: Mutex<Option<Last>>,
    terms: Mutex<Option<(MakeCommand, Duration)>>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// The next process is being started.
    Starting,
    /// It runs, and can be given up by closing the channel.
    Waiting { pid: u32, channel: UnixStream },
    /// It runs, and is being ended. As long as this says so it is not reaped, and its number is its own.
    Ending { pid: u32 },
    /// The stop came first. A process that is just being started is known in a moment.
    Forestalled { starting: bool },
    /// The next process has taken over.
    Done,
}

/// How the last hand-off went, or goes.
#[cfg(feature = "admin")]
#[derive(Clone)]
pub(crate) struct Last {
    pub(crate) at: tokio::time::Instant,
    pub(crate) outcome: &'static str,
    /// The process on the other side.
    pub(crate) pid: Option<u32>,
    pub(crate) why: Option<String>,
}

#[cfg(feature = "admin")]
impl HandOff {
    /// Keeps what is said of hand-offs, for whoever asks.
    pub(crate) fn remember(&self, notice: &Notice) {
        let (outcome, pid, why) = match notice {
            Notice::HandOffBegun { pid, .. } => ("under way", Some(*pid), None),
            Notice::HandOffFailed { why } => ("failed", None, Some(why.clone())),
            Notice::HandedOver { pid } => ("handed over", Some(*pid), None),
            Notice::TookOver { pid } => ("took over", Some(*pid), None),
            _ => return,
        };
        let at = tokio::time::Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Last {
            at,
            outcome,
            pid,
            why,
        });
    }

    pub(crate) fn last(&self) -> Option<Last> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

impl HandOff {
    /// How the next process is started, and how long it may take until it is ready.
    pub(crate) fn allow(&self, command: MakeCommand, patience: Duration) {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = Some((command, patience));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<(), &'static str> {
        let mut state = self.state();
        match *state {
            State::Idle => {
                *state = State::Starting;
                Ok(())
            }
            State::Forestalled { .. } | State::Done => Err("the service is stopping"),
            _ => Err("one is under way already"),
        }
    }

    /// The stop has begun: a hand-off under way is given up. Does not wait.
    pub(crate) fn forestall(&self) {
        let mut state = self.state();
        match &*state {
            State::Done | State::Ending { .. } | State::Forestalled { .. } => {}
            State::Waiting { pid, channel } => {
                let pid = *pid;
                let _ = channel.shutdown(Shutdown::Both);
                *state = State::Ending { pid };
            }
            State::Starting => *state = State::Forestalled { starting: true },
            State::Idle => *state = State::Forestalled { starting: false },
        }
    }

    /// This process is about to end: a next one that has not taken over must not outlive it. Waits for the number of
    /// one that is just being started, and until it is gone.
    pub(crate) fn end_now(&self) {
        let state = self
            .started
            .wait_while(self.state(), |state| {
                matches!(state, State::Forestalled { starting: true })
            })
            .unwrap_or_else(PoisonError::into_inner);
        if let State::Waiting { pid, .. } | State::Ending { pid } = *state {
            // Under the lock nobody reaps it, and the number is its own.
            sys::kill(pid);
            drop(state);
            wait(pid, KILLED);
        }
    }

    /// The next process runs, or does not. If the stop came first it is only there to be ended.
    fn started(&self, next: Option<(u32, UnixStream)>) {
        let mut state = self.state();
        *state = match (&*state, next) {
            (State::Forestalled { .. }, Some((pid, _))) => State::Ending { pid },
            (State::Forestalled { .. }, None) => State::Forestalled { starting: false },
            (_, Some((pid, channel))) => State::Waiting { pid, channel },
            (_, None) => State::Idle,
        };
        self.started.notify_all();
    }
}

impl Core {
    /// Starts the next process and hands the listeners over to it, on a thread of its own.
    pub(crate) fn hand_off(self: &Arc<Self>) {
        let may = if self.is_stopping() {
            Err("the service is stopping")
        } else if !self.running.is_open() {
            Err("the service is still starting")
        } else if std::process::id() == 1 {
            Err(
                "process 1 cannot be replaced, because the container ends with it; start the service with `adieu run`",
            )
        } else {
            self.handoff.begin()
        };
        let may = may.and_then(|()| {
            let core = Arc::clone(self);
            let spawned = thread::Builder::new()
                .name("adieu-handoff".into())
                .spawn(move || {
                    if let Err(why) = hand_off(&core) {
                        core.note(Notice::HandOffFailed { why });
                    }
                });
            spawned.map(drop).map_err(|_| {
                self.handoff.started(None);
                "there is no thread for it"
            })
        });
        if let Err(why) = may {
            let why = why.to_owned();
            self.note(Notice::HandOffRefused { why });
        }
    }
}

/// One hand-off, from the start of the next process to its success. An error says why the service goes on instead.
fn hand_off(core: &Arc<Core>) -> Result<(), String> {
    // What makes the command is the program's.
    let started = catch_unwind(AssertUnwindSafe(|| Next::start(core)))
        .unwrap_or_else(|payload| Err(format!("the command {}", panics::describe(payload))));
    let (mut next, patience) = started.inspect_err(|_| core.handoff.started(None))?;
    match next.take_over(core, patience) {
        Ok(()) => Ok(()),
        Err(why) => Err(next.end(core, &why)),
    }
}

/// The next process.
struct Next {
    child: Child,
    channel: UnixStream,
    /// Whether it was told to accept: then it has clients to see off if it must end.
    may_have_clients: bool,
}

impl Next {
    fn start(core: &Core) -> Result<(Self, Duration), String> {
        let trouble = |error: io::Error| format!("the listeners cannot be handed over: {error}");
        let mut terms = core
            .handoff
            .terms
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (make, patience) = terms.as_mut().ok_or("this service has no hand-off")?;
        let (mut command, patience) = (make(), *patience);
        drop(terms);
        let bequests = core.estate.bequests().map_err(trouble)?;
        let (channel, theirs) = UnixStream::pair().map_err(trouble)?;
        let ours = channel.try_clone().map_err(trouble)?;
        let letter = letter(&theirs, &bequests);
        let text = serde_json::to_string(&letter).map_err(|error| error.to_string())?;
        let passed = letter.listeners.iter().map(|item| item.descriptor);
        sys::keep_open(&mut command, passed.chain([letter.channel]).collect());
        let program = command.get_program().to_owned();
        let child = command.env(VARIABLE, text).spawn().map_err(|error| {
            format!(
                "{} cannot be started: {error}",
                Path::new(&program).display()
            )
        })?;
        // Known before it is said: whoever hears of it may stop us at once.
        core.handoff.started(Some((child.id(), ours)));
        core.note(Notice::HandOffBegun {
            pid: child.id(),
            command: program.to_string_lossy().into_owned(),
        });
        let next = Self {
            child,
            channel,
            may_have_clients: false,
        };
        Ok((next, patience))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The conversation. An error says what went wrong, as far as could be heard.
    fn take_over(&mut self, core: &Core, patience: Duration) -> Result<(), String> {
        let trouble = |error: io::Error| error.to_string();
        let mut hearing = BufReader::new(self.channel.try_clone().map_err(trouble)?);
        if matches!(*core.handoff.state(), State::Ending { .. }) {
            return Err(String::new());
        }
        let by = Instant::now() + patience;
        let ready =
            hear(&mut hearing, by).map_err(|silence| silence.because("was not ready", patience))?;
        if ready != "ready" {
            return Err("does not speak our language".to_owned());
        }
        self.may_have_clients = true;
        (&self.channel).write_all(b"go\n").map_err(trouble)?;
        let by = Instant::now() + OPENING;
        let serving =
            hear(&mut hearing, by).map_err(|silence| silence.because("did not accept", OPENING))?;
        let names: BTreeSet<String> = serving
            .strip_prefix("serving ")
            .and_then(|names| serde_json::from_str(names).ok())
            .ok_or("does not speak our language")?;
        {
            let mut state = core.handoff.state();
            if !matches!(*state, State::Waiting { .. }) {
                return Err(String::new());
            }
            // Under the lock: the stop that comes now comes after the hand-off.
            (&self.channel).write_all(b"yours\n").map_err(trouble)?;
            *state = State::Done;
        }
        let pid = self.pid();
        core.estate.pass_on(pid, names);
        core.note(Notice::HandedOver { pid });
        core.request_stop(Cause::HandedOver(pid));
        Ok(())
    }

    /// Ends it, and says why it failed.
    fn end(mut self, core: &Core, why: &str) -> String {
        let pid = self.pid();
        let forestalled = {
            let mut state = core.handoff.state();
            let forestalled = matches!(*state, State::Ending { .. });
            *state = State::Ending { pid };
            forestalled
        };
        let _ = self.channel.shutdown(Shutdown::Both);
        // One that has ended by itself tells the reason with its status.
        let by_itself = wait(
            pid,
            Duration::from_millis(if why.is_empty() { 200 } else { 0 }),
        );
        if !by_itself {
            sys::terminate(pid);
            let patience = if self.may_have_clients {
                core.terms.grace
            } else {
                ENDING
            };
            if !wait(pid, patience) {
                sys::kill(pid);
            }
        }
        let status = {
            let mut state = core.handoff.state();
            *state = if forestalled {
                State::Forestalled { starting: false }
            } else {
                State::Idle
            };
            self.child.wait()
        };
        match status {
            _ if forestalled => "the service was asked to stop".to_owned(),
            Ok(status) if why.is_empty() && by_itself => {
                format!("process {pid} {}", describe(status))
            }
            _ if why.is_empty() => format!("process {pid} closed the hand-off"),
            _ => format!("process {pid} {why}"),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended in its start-up with exit code {code}"),
        (None, Some(signal)) => format!("was killed in its start-up by signal {signal}"),
        (None, None) => "ended in its start-up".to_owned(),
    }
}

fn letter(channel: &UnixStream, bequests: &[Bequest]) -> Letter {
    let item = |bequest: &Bequest| Item {
        name: bequest.name.clone(),
        descriptor: bequest.descriptor.as_raw_fd(),
        ours: bequest.ours,
        // A name that is no text cannot be written into the environment; the file stays, then.
        file: bequest.file.clone().filter(|file| file.to_str().is_some()),
    };
    Letter {
        from: std::process::id(),
        channel: channel.as_raw_fd(),
        listeners: bequests.iter().map(item).collect(),
    }
}

/// Why there was no answer.
enum Silence {
    /// The other side is gone, or was given up.
    Closed,
    TooLong,
}

impl Silence {
    /// Nothing for a close: the way the process ended says more.
    fn because(self, what: &str, patience: Duration) -> String {
        match self {
            Self::Closed => String::new(),
            Self::TooLong => format!("{what} within {}", show(patience)),
        }
    }
}

/// The next line, by this time.
fn hear(hearing: &mut BufReader<UnixStream>, by: Instant) -> Result<String, Silence> {
    let mut line = Vec::new();
    loop {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Silence::TooLong);
        }
        if hearing.get_ref().set_read_timeout(Some(left)).is_err() {
            return Err(Silence::Closed);
        }
        match hearing.read_until(b'\n', &mut line) {
            Ok(_) if line.pop_if(|last| *last == b'\n').is_some() => {
                return String::from_utf8(line).map_err(|_| Silence::Closed);
            }
            Ok(_) => return Err(Silence::Closed),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Silence::Closed),
        }
    }
}

/// Waits until the process has ended, without reaping it; says whether it has.
fn wait(pid: u32, patience: Duration) -> bool {
    let (tell, told) = mpsc::channel();
    let waiting = thread::Builder::new()
        .name("adieu-handoff-wait".into())
        .spawn(move || {
            sys::await_end(pid);
            let _ = tell.send(());
        });
    waiting.is_ok() && told.recv_timeout(patience).is_ok()
}

/// The command that started this process, looked up anew so that a new version in its place is found.
pub(crate) fn own_command() -> MakeCommand {
    let mut words = env::args_os();
    let program = program(words.next());
    let arguments: Vec<OsString> = words.collect();
    Box::new(move || {
        let mut command = Command::new(&program);
        command.args(&arguments);
        command
    })
}

/// The path by which the program was called, if it is the program that runs: a link to the present version stays
/// a link. Otherwise where the system says it is.
fn program(called: Option<OsString>) -> PathBuf {
    let real = env::current_exe().unwrap_or_default();
    let by_name = called.and_then(|called| {
        let called = PathBuf::from(called);
        if called.components().count() > 1 {
            return Some(env::current_dir().ok()?.join(called));
        }
        env::split_paths(&env::var_os("PATH")?)
            .map(|folder| folder.join(&called))
            .find(|path| path.is_file())
    });
    by_name
        .filter(|path| path.canonicalize().is_ok_and(|path| path == real))
        .unwrap_or(real)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_process_that_was_just_being_started_does_not_outlive_us() {
        let handoff = HandOff::default();
        handoff.begin().expect("nothing is under way");
        handoff.forestall();
        let (channel, _theirs) = UnixStream::pair().expect("a channel");
        let (say, said) = mpsc::channel();
        let status = thread::scope(|scope| {
            let ending = scope.spawn(|| {
                say.send(()).expect("somebody hears");
                handoff.end_now();
            });
            said.recv().expect("it ends");
            // Takes longer than the other thread needs to look, which would find nobody.
            let mut child = Command::new("sleep").arg("20").spawn().expect("a child");
            handoff.started(Some((child.id(), channel)));
            ending.join().expect("it waits for the number");
            child.try_wait().expect("a child")
        });
        let status = status.expect("it is gone when we go");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn nobody_waits_for_a_start_that_failed() {
        let handoff = HandOff::default();
        handoff.begin().expect("nothing is under way");
        handoff.forestall();
        handoff.started(None);
        handoff.end_now();
        assert_eq!(handoff.begin(), Err("the service is stopping"));
    }
}
