//! The side that hands over: starts the next process, waits until it serves, and then stops. Or goes on.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use adieu_lifecycle::Cause;
#[cfg(feature = "admin")]
use adieu_lifecycle::Time;

use super::MakeCommand;
use super::manifest::{HandoffManifest, ListenerEntry, VARIABLE};
use crate::net::{ListenerFd, SocketFile};
use crate::report::Notice;
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::signal::Signal;
use crate::util::duration::show;
use crate::util::{panics, sys};

/// How long the next process may take from `go` to `serving`: it only has to accept.
const SERVING_WAIT: Duration = Duration::from_secs(10);
/// How long a next process that failed may take to end by itself.
const EXIT_WAIT: Duration = Duration::from_secs(2);
/// How long one that was killed may take to be gone: a moment, unless the machine is very busy.
const KILL_WAIT: Duration = Duration::from_millis(250);

/// The hand-off of one service.
#[derive(Default)]
pub(crate) struct HandOff {
    state: Mutex<HandoffState>,
    /// Notified when a process that was being started runs, or does not.
    started: Condvar,
    #[cfg(feature = "admin")]
    last: Mutex<Option<LastHandoff>>,
    command: Mutex<Option<(MakeCommand, Duration)>>,
}

#[derive(Default)]
enum HandoffState {
    #[default]
    Idle,
    /// The next process is being started.
    Starting,
    /// It runs, and can be given up by closing the channel.
    Waiting { pid: u32, channel: UnixStream },
    /// It runs, and is being ended. As long as this says so it is not reaped, and its number is its own.
    Ending { pid: u32 },
    /// The stop came first. A process that is just being started is known in a moment.
    Cancelled { starting: bool },
    /// The next process has taken over.
    Done,
}

/// How the last hand-off went, or goes.
#[cfg(feature = "admin")]
#[derive(Clone)]
pub(crate) struct LastHandoff {
    pub(crate) at: tokio::time::Instant,
    pub(crate) outcome: &'static str,
    /// The process on the other side.
    pub(crate) pid: Option<u32>,
    pub(crate) why: Option<String>,
}

impl Extension for HandOff {
    #[cfg(feature = "admin")]
    fn on_notice(&self, notice: &Notice, _: Time) {
        self.remember(notice);
    }

    fn on_signal(&self, core: &Arc<ServiceShared>, signal: Signal) -> bool {
        let is_ours = signal == Signal::User2;
        if is_ours {
            core.hand_off();
        }
        is_ours
    }

    fn on_stop_requested(&self) {
        self.cancel();
    }

    /// The old process serves until it says otherwise.
    fn holds_back(&self, core: &Arc<ServiceShared>) -> bool {
        let has_predecessor = core.listeners().awaiting_predecessor();
        if has_predecessor {
            core.announce_ready();
        }
        has_predecessor
    }

    fn on_serving(&self, core: &ServiceShared) {
        if core.listeners().awaiting_predecessor() {
            // Before the line that makes the old process look for it.
            #[cfg(target_os = "linux")]
            core.transfer().say_hello(core);
            core.listeners().say_serving();
        }
    }

    fn before_end(&self) {
        self.kill_new_process();
    }
}

#[cfg(feature = "admin")]
impl HandOff {
    /// Keeps what notices say of hand-offs, for the admin port.
    pub(crate) fn remember(&self, notice: &Notice) {
        let (outcome, pid, why) = match notice {
            Notice::HandOffBegun { pid, .. } => ("in progress", Some(*pid), None),
            Notice::HandOffFailed { why } => ("failed", None, Some(why.clone())),
            Notice::HandedOver { pid } => ("handed over", Some(*pid), None),
            Notice::TookOver { pid } => ("took over", Some(*pid), None),
            _ => return,
        };
        let at = tokio::time::Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(LastHandoff {
            at,
            outcome,
            pid,
            why,
        });
    }

    pub(crate) fn last(&self) -> Option<LastHandoff> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

impl HandOff {
    /// How the next process is started, and how long it may take until it is ready.
    pub(crate) fn configure(&self, command: MakeCommand, timeout: Duration) {
        *self.command.lock().unwrap_or_else(PoisonError::into_inner) = Some((command, timeout));
    }

    /// Whether the service asked for it.
    fn is_configured(&self) -> bool {
        let command = self.command.lock().unwrap_or_else(PoisonError::into_inner);
        command.is_some()
    }

    fn state(&self) -> MutexGuard<'_, HandoffState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<(), &'static str> {
        let mut state = self.state();
        match *state {
            HandoffState::Idle => {
                *state = HandoffState::Starting;
                Ok(())
            }
            HandoffState::Cancelled { .. } | HandoffState::Done => Err("the service is stopping"),
            _ => Err("one is in progress already"),
        }
    }

    /// The stop has begun: a hand-off in progress is given up. Does not wait.
    pub(crate) fn cancel(&self) {
        let mut state = self.state();
        match &*state {
            HandoffState::Done | HandoffState::Ending { .. } | HandoffState::Cancelled { .. } => {}
            HandoffState::Waiting { pid, channel } => {
                let pid = *pid;
                let _ = channel.shutdown(Shutdown::Both);
                *state = HandoffState::Ending { pid };
            }
            HandoffState::Starting => *state = HandoffState::Cancelled { starting: true },
            HandoffState::Idle => *state = HandoffState::Cancelled { starting: false },
        }
    }

    /// This process is about to end: a next one that has not taken over must not outlive it. Waits for the number of
    /// one that is just being started, and until it is gone.
    pub(crate) fn kill_new_process(&self) {
        let state = self
            .started
            .wait_while(self.state(), |state| {
                matches!(state, HandoffState::Cancelled { starting: true })
            })
            .unwrap_or_else(PoisonError::into_inner);
        if let HandoffState::Waiting { pid, .. } | HandoffState::Ending { pid } = *state {
            // Under the lock no thread reaps it, and the number is its own.
            sys::kill(pid);
            drop(state);
            await_exit(pid, KILL_WAIT);
        }
    }

    /// The next process runs, or does not. If the stop came first it is only there to be ended.
    fn started(&self, next: Option<(u32, UnixStream)>) {
        let mut state = self.state();
        *state = match (&*state, next) {
            (HandoffState::Cancelled { .. }, Some((pid, _))) => HandoffState::Ending { pid },
            (HandoffState::Cancelled { .. }, None) => HandoffState::Cancelled { starting: false },
            (_, Some((pid, channel))) => HandoffState::Waiting { pid, channel },
            (_, None) => HandoffState::Idle,
        };
        self.started.notify_all();
    }
}

impl ServiceShared {
    pub(crate) fn handoff(&self) -> &HandOff {
        self.extensions.get()
    }

    /// Starts the next process and hands the listeners over to it, on a thread of its own.
    pub(crate) fn hand_off(self: &Arc<Self>) {
        let may = if self.is_stopping() {
            Err("the service is stopping")
        } else if !self.running.is_open() {
            Err("the service is still starting")
        } else if !self.handoff().is_configured() {
            Err("the service does not ask for it; `Service::handoff` turns it on")
        } else if std::process::id() == 1 {
            Err(
                "PID 1 cannot be replaced, because the container ends with it; start the service with `adieu run`",
            )
        } else {
            self.handoff().begin()
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
                self.handoff().started(None);
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
fn hand_off(core: &Arc<ServiceShared>) -> Result<(), String> {
    // What makes the command is the program's.
    let started = catch_unwind(AssertUnwindSafe(|| NewProcess::start(core)))
        .unwrap_or_else(|payload| Err(format!("the command {}", panics::describe(payload))));
    let (mut next, timeout) = started.inspect_err(|_| core.handoff().started(None))?;
    match next.take_over(core, timeout) {
        Ok(()) => Ok(()),
        Err(error) => Err(next.end(core, &error)),
    }
}

/// The next process.
struct NewProcess {
    child: Child,
    channel: UnixStream,
    /// Where connections go.
    #[cfg(target_os = "linux")]
    connections: Option<OwnedFd>,
    /// Whether it was allowed to accept: then it has clients to answer if it must end.
    may_have_clients: bool,
}

impl NewProcess {
    fn start(core: &ServiceShared) -> Result<(Self, Duration), String> {
        let trouble = |error: io::Error| format!("the listeners cannot be handed over: {error}");
        let mut command_and_timeout = core
            .handoff()
            .command
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (make, timeout) = command_and_timeout
            .as_mut()
            .ok_or("this service has no hand-off")?;
        let (mut command, timeout) = (make(), *timeout);
        drop(command_and_timeout);
        let listener_fds = core.listeners().listener_fds().map_err(trouble)?;
        let (channel, theirs) = UnixStream::pair().map_err(trouble)?;
        let ours = channel.try_clone().map_err(trouble)?;
        #[cfg(target_os = "linux")]
        let (connections, their_connections) = crate::net::transfer_channel().map_err(trouble)?;
        #[cfg(target_os = "linux")]
        let their_connections = Some(their_connections);
        #[cfg(not(target_os = "linux"))]
        let their_connections: Option<OwnedFd> = None;
        let manifest = manifest(&theirs, their_connections.as_ref(), &listener_fds);
        let text = serde_json::to_string(&manifest).map_err(|error| error.to_string())?;
        let passed = manifest.listeners.iter().map(|item| item.descriptor);
        let channels = manifest.connections.into_iter().chain([manifest.channel]);
        sys::keep_open(&mut command, passed.chain(channels).collect());
        let program = command.get_program().to_owned();
        let child = command.env(VARIABLE, text).spawn().map_err(|error| {
            format!(
                "{} cannot be started: {error}",
                Path::new(&program).display()
            )
        })?;
        // Known before the notice: its handler may stop the service at once.
        core.handoff().started(Some((child.id(), ours)));
        core.note(Notice::HandOffBegun {
            pid: child.id(),
            command: program.to_string_lossy().into_owned(),
        });
        let next = Self {
            child,
            channel,
            #[cfg(target_os = "linux")]
            connections: Some(connections),
            may_have_clients: false,
        };
        Ok((next, timeout))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The protocol of the hand-off, from `ready` to `yours`.
    fn take_over(&mut self, core: &ServiceShared, timeout: Duration) -> Result<(), TakeOverError> {
        let unknown_protocol = || TakeOverError::Failed("does not speak our language".to_owned());
        let mut reader = BufReader::new(self.channel.try_clone()?);
        if matches!(*core.handoff().state(), HandoffState::Ending { .. }) {
            return Err(TakeOverError::ChannelClosed);
        }
        let by = Instant::now() + timeout;
        let ready = read_line(&mut reader, by)
            .map_err(|no_reply| no_reply.waiting_for("was not ready", timeout))?;
        if ready != "ready" {
            return Err(unknown_protocol());
        }
        self.may_have_clients = true;
        (&self.channel).write_all(b"go\n")?;
        let by = Instant::now() + SERVING_WAIT;
        let serving = read_line(&mut reader, by)
            .map_err(|no_reply| no_reply.waiting_for("did not accept", SERVING_WAIT))?;
        let names: BTreeSet<String> = serving
            .strip_prefix("serving ")
            .and_then(|names| serde_json::from_str(names).ok())
            .ok_or_else(unknown_protocol)?;
        {
            let mut state = core.handoff().state();
            if !matches!(*state, HandoffState::Waiting { .. }) {
                return Err(TakeOverError::ChannelClosed);
            }
            // Under the lock: the stop that comes now comes after the hand-off.
            (&self.channel).write_all(b"yours\n")?;
            *state = HandoffState::Done;
        }
        let pid = self.pid();
        // Before the stop, in which connections look for it.
        #[cfg(target_os = "linux")]
        if let Some(connections) = self.connections.take() {
            core.transfer().begin(core, connections, pid);
        }
        core.listeners().handed_to(pid, names);
        core.note(Notice::HandedOver { pid });
        core.request_stop(Cause::HandedOver(pid));
        Ok(())
    }

    /// Ends it, and says why it failed.
    fn end(mut self, core: &ServiceShared, error: &TakeOverError) -> String {
        let pid = self.pid();
        let cancelled = {
            let mut state = core.handoff().state();
            let cancelled = matches!(*state, HandoffState::Ending { .. });
            *state = HandoffState::Ending { pid };
            cancelled
        };
        let _ = self.channel.shutdown(Shutdown::Both);
        // A new process that has closed the channel is ending by itself. On a busy machine this takes a while.
        let own_exit_wait = match error {
            TakeOverError::ChannelClosed if !cancelled => EXIT_WAIT,
            _ => Duration::ZERO,
        };
        let mut asked = Asked::Nothing;
        if !await_exit(pid, own_exit_wait) {
            asked = Asked::ToEnd;
            sys::terminate(pid);
            let timeout = if self.may_have_clients {
                core.terms.grace
            } else {
                EXIT_WAIT
            };
            if !await_exit(pid, timeout) {
                asked = Asked::Killed;
                sys::kill(pid);
            }
        }
        let status = {
            let mut state = core.handoff().state();
            *state = if cancelled {
                HandoffState::Cancelled { starting: false }
            } else {
                HandoffState::Idle
            };
            self.child.wait()
        };
        match (error, status) {
            _ if cancelled => "the service was asked to stop".to_owned(),
            (TakeOverError::ChannelClosed, Ok(status)) if asked.leaves_reason(status) => {
                format!("process {pid} {}", describe(status))
            }
            (TakeOverError::ChannelClosed, _) => format!("process {pid} closed the hand-off"),
            (TakeOverError::Failed(why), _) => format!("process {pid} {why}"),
        }
    }
}

/// What was done to end a new process.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    ToEnd,
    Killed,
}

impl Asked {
    /// Whether a process that has ended like this had a reason of its own: it may have been at its end when it was asked.
    fn leaves_reason(self, status: ExitStatus) -> bool {
        match (self, status.code(), status.signal()) {
            (Self::Nothing, ..) => true,
            (_, Some(code), _) => code != 0,
            (Self::ToEnd, None, signal) => signal != Some(libc::SIGTERM),
            (Self::Killed, None, signal) => !matches!(signal, Some(libc::SIGTERM | libc::SIGKILL)),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended in its start-up with exit code {code}"),
        (None, Some(signal)) => format!("was killed in its start-up by signal {signal}"),
        (None, None) => "ended in its start-up".to_owned(),
    }
}

fn manifest(
    channel: &UnixStream,
    connections: Option<&OwnedFd>,
    listener_fds: &[ListenerFd],
) -> HandoffManifest {
    let item = |listener_fd: &ListenerFd| ListenerEntry {
        name: listener_fd.name.clone(),
        descriptor: listener_fd.descriptor.as_raw_fd(),
        ours: listener_fd.ours,
        // A name that is not text cannot be written into the environment; the file stays, then.
        file: (listener_fd.file.as_ref())
            .map(|file| file.path().to_owned())
            .filter(|file| file.to_str().is_some()),
        identity: listener_fd.file.as_ref().map(SocketFile::identity),
    };
    HandoffManifest {
        from: std::process::id(),
        channel: channel.as_raw_fd(),
        connections: connections.map(AsRawFd::as_raw_fd),
        listeners: listener_fds.iter().map(item).collect(),
    }
}

/// Why there was no answer.
enum NoReply {
    /// The other side is gone, or was given up.
    Closed,
    TooLong,
}

impl NoReply {
    fn waiting_for(self, what: &str, timeout: Duration) -> TakeOverError {
        match self {
            Self::Closed => TakeOverError::ChannelClosed,
            Self::TooLong => TakeOverError::Failed(format!("{what} within {}", show(timeout))),
        }
    }
}

/// Why the new process did not take over.
#[derive(Debug)]
enum TakeOverError {
    /// The channel was closed: by the new process, which has ended or is about to, or by this one, because it was asked
    /// to stop. The exit status of the new process says more.
    ChannelClosed,
    /// Words after "process 123".
    Failed(String),
}

impl From<io::Error> for TakeOverError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The next line, by this time.
fn read_line(reader: &mut BufReader<UnixStream>, by: Instant) -> Result<String, NoReply> {
    let mut line = Vec::new();
    loop {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoReply::TooLong);
        }
        if reader.get_ref().set_read_timeout(Some(left)).is_err() {
            return Err(NoReply::Closed);
        }
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.pop_if(|last| *last == b'\n').is_some() => {
                return String::from_utf8(line).map_err(|_| NoReply::Closed);
            }
            Ok(_) => return Err(NoReply::Closed),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(NoReply::Closed),
        }
    }
}

/// Waits until the process has ended, without reaping it; says whether it has.
fn await_exit(pid: u32, timeout: Duration) -> bool {
    let (tell, told) = mpsc::channel();
    let waiting = thread::Builder::new()
        .name("adieu-handoff-wait".into())
        .spawn(move || {
            sys::await_end(pid);
            let _ = tell.send(());
        });
    waiting.is_ok() && told.recv_timeout(timeout).is_ok()
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
    use super::*;

    /// The reason for the failure is the new process's exit status, however late it comes, unless it is our own doing.
    #[test]
    fn a_process_that_was_asked_at_its_end_has_its_own_reason() {
        let (exit, signal) = (|code: i32| code << 8, |signal: i32| signal);
        for (asked, status, is_its_own) in [
            (Asked::Nothing, exit(0), true),
            (Asked::Nothing, signal(libc::SIGKILL), true),
            (Asked::ToEnd, exit(7), true),
            (Asked::ToEnd, signal(libc::SIGKILL), true),
            (Asked::ToEnd, exit(0), false),
            (Asked::ToEnd, signal(libc::SIGTERM), false),
            (Asked::Killed, exit(7), true),
            (Asked::Killed, signal(libc::SIGKILL), false),
            (Asked::Killed, signal(libc::SIGSEGV), true),
        ] {
            let status = ExitStatus::from_raw(status);
            assert_eq!(asked.leaves_reason(status), is_its_own, "{status}");
        }
    }

    #[test]
    fn a_process_that_was_just_being_started_does_not_outlive_us() {
        let handoff = HandOff::default();
        handoff.begin().expect("no hand-off is in progress");
        handoff.cancel();
        let (channel, _theirs) = UnixStream::pair().expect("a channel");
        let (say, said) = mpsc::channel();
        let status = thread::scope(|scope| {
            let ending = scope.spawn(|| {
                say.send(()).expect("a receiver");
                handoff.kill_new_process();
            });
            said.recv().expect("it ends");
            // Takes longer than the other thread needs to look, which would find no process.
            let mut child = Command::new("sleep").arg("20").spawn().expect("a child");
            handoff.started(Some((child.id(), channel)));
            ending.join().expect("it waits for the number");
            child.try_wait().expect("a child")
        });
        let status = status.expect("it is gone when we go");
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_start_that_failed_is_not_waited_for() {
        let handoff = HandOff::default();
        handoff.begin().expect("no hand-off is in progress");
        handoff.cancel();
        handoff.started(None);
        handoff.kill_new_process();
        assert_eq!(handoff.begin(), Err("the service is stopping"));
    }
}
