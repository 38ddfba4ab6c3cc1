//! A drill about to be held: everything that can be asked of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::process::{Launch, Placeholders, Ready, StopSignal};
use crate::progress::{Progress, Silent};
use crate::report::Level;

/// A drill about to be held.
///
/// ```no_run
/// # async fn example() -> Result<(), adieu_drill::DrillError> {
/// use adieu_drill::{Drill, report::Verdict};
///
/// let report = Drill::command(["target/debug/server", "--port", "{port}"])
///     .http("http://127.0.0.1:{port}/")
///     .slow("/slow?ms={ms}")
///     .run()
///     .await?;
/// assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a drill does nothing until `run`"]
pub struct Drill {
    pub(crate) name: Option<String>,
    pub(crate) launch: Launch,
    pub(crate) address: Option<Address>,
    pub(crate) tls: bool,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) paths: Paths,
    pub(crate) ready: Ready,
    pub(crate) ready_within: Duration,
    pub(crate) signal: StopSignal,
    pub(crate) grace: Duration,
    pub(crate) level: Level,
    pub(crate) only: Vec<String>,
    pub(crate) skip: Vec<String>,
    pub(crate) require: Vec<String>,
    pub(crate) thresholds: Vec<(String, String)>,
    pub(crate) repeat: u32,
    pub(crate) seed: Option<u64>,
    pub(crate) clients: usize,
    pub(crate) reload: bool,
    pub(crate) restart_signal: Option<StopSignal>,
    pub(crate) held_socket: bool,
    pub(crate) state_file: Option<PathBuf>,
    pub(crate) state_command: Option<String>,
    pub(crate) feed: Option<String>,
    pub(crate) ledger: Option<String>,
    pub(crate) conntrack: PathBuf,
    pub(crate) progress: Arc<dyn Progress>,
}

/// Where the program is spoken to, with placeholders.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Http(String),
    Tcp(String),
}

impl Address {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Http(text) | Self::Tcp(text) => text,
        }
    }
}

/// Paths that show one kind of answer each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    pub(crate) slow: Option<String>,
    pub(crate) stream: Option<String>,
    pub(crate) large: Option<String>,
    pub(crate) sse: Option<String>,
    pub(crate) ws: Option<String>,
    pub(crate) upload: Option<String>,
    pub(crate) readiness: Option<String>,
    pub(crate) liveness: Option<String>,
}

impl Paths {
    /// What was given, each with the option that gives it.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("--slow", &self.slow),
            ("--stream", &self.stream),
            ("--large", &self.large),
            ("--sse", &self.sse),
            ("--ws", &self.ws),
            ("--upload", &self.upload),
            ("--readiness", &self.readiness),
            ("--liveness", &self.liveness),
        ]
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }
}

impl fmt::Debug for Drill {
    /// Without headers and bodies, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drill")
            .field("command", &self.launch.command)
            .field("address", &self.address)
            .field("paths", &self.paths)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Drill {
    /// A drill of this program. In its arguments `{port}` is replaced by a free port, `{port2}` and `{port3}` by others,
    /// and `{dir}` by a directory that is empty when the drill begins.
    pub fn command(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name: None,
            launch: Launch {
                command: words.into_iter().map(Into::into).collect(),
                env: Vec::new(),
                cwd: None,
                alone: false,
            },
            address: None,
            tls: false,
            method: None,
            headers: Vec::new(),
            body: Vec::new(),
            paths: Paths::default(),
            ready: Ready::Answers,
            ready_within: Duration::from_secs(30),
            signal: StopSignal::default(),
            grace: Duration::from_secs(30),
            level: Level::Default,
            only: Vec::new(),
            skip: Vec::new(),
            require: Vec::new(),
            thresholds: Vec::new(),
            repeat: 1,
            seed: None,
            clients: 32,
            reload: false,
            restart_signal: None,
            held_socket: false,
            state_file: None,
            state_command: None,
            feed: None,
            ledger: None,
            conntrack: PathBuf::from(crate::conntrack::TABLE),
            progress: Arc::new(Silent),
        }
    }

    /// What to call it in the report. The program's name if left out.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What the report calls it: the name it was given, or that of its program.
    #[must_use]
    pub fn target_name(&self) -> String {
        let program = self.launch.command.first().map_or("", String::as_str);
        let base = program.rsplit('/').next().unwrap_or(program);
        self.name.clone().unwrap_or_else(|| base.to_owned())
    }

    /// The program speaks HTTP here: `http://127.0.0.1:{port}/`. With https, any certificate is believed.
    pub fn http(mut self, url: impl Into<String>) -> Self {
        self.address = Some(Address::Http(url.into()));
        self
    }

    /// The program accepts connections here: `127.0.0.1:{port}`. If it answers a line with a line that has it inside,
    /// requests are counted as they are for HTTP.
    pub fn tcp(mut self, address: impl Into<String>) -> Self {
        self.address = Some(Address::Tcp(address.into()));
        self
    }

    /// Connections to a TCP address are secured with TLS; any certificate is believed.
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Sets a variable in the program's environment; placeholders are filled here too.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.launch.env.push((name.into(), value.into()));
        self
    }

    /// The directory in which the program and the commands that look at it are started, and which a state file is
    /// relative to. That of this process if left out.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.launch.cwd = Some(path.into());
        self
    }

    /// No other code in this process starts processes while the drill runs. Then every process that turns up below it
    /// comes from the program, also a daemon that has left its group and its environment behind, and is ended with it. Not for a test
    /// beside others in one process.
    pub const fn alone(mut self) -> Self {
        self.launch.alone = true;
        self
    }

    /// The method of the requests. GET, or POST if there is a body, if left out.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// A header of every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body of the requests.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// A path that answers late: `/slow?ms={ms}`.
    pub fn slow(mut self, path: impl Into<String>) -> Self {
        self.paths.slow = Some(path.into());
        self
    }

    /// A path whose answer comes in pieces, over a second or so, and ends.
    pub fn stream(mut self, path: impl Into<String>) -> Self {
        self.paths.stream = Some(path.into());
        self
    }

    /// A path with an answer too large for the buffers of a connection. The streaming one if left out.
    pub fn large(mut self, path: impl Into<String>) -> Self {
        self.paths.large = Some(path.into());
        self
    }

    /// A path with server-sent events without end.
    pub fn sse(mut self, path: impl Into<String>) -> Self {
        self.paths.sse = Some(path.into());
        self
    }

    /// A path with a WebSocket.
    pub fn ws(mut self, path: impl Into<String>) -> Self {
        self.paths.ws = Some(path.into());
        self
    }

    /// A path that takes a body with POST.
    pub fn upload(mut self, path: impl Into<String>) -> Self {
        self.paths.upload = Some(path.into());
        self
    }

    /// The readiness probe: a path, or a whole URL if it is on another port.
    pub fn readiness(mut self, path: impl Into<String>) -> Self {
        self.paths.readiness = Some(path.into());
        self
    }

    /// The liveness probe: a path, or a whole URL if it is on another port.
    pub fn liveness(mut self, path: impl Into<String>) -> Self {
        self.paths.liveness = Some(path.into());
        self
    }

    /// How the program says that it is ready. Its address answers, if left out.
    pub fn ready(mut self, ready: Ready) -> Self {
        self.ready = ready;
        self
    }

    /// How long it may take until it is ready. 30 s if left out.
    pub const fn ready_within(mut self, patience: Duration) -> Self {
        self.ready_within = patience;
        self
    }

    /// The signal that asks for a stop. SIGTERM if left out; on Windows, Ctrl-Break.
    pub const fn signal(mut self, signal: StopSignal) -> Self {
        self.signal = signal;
        self
    }

    /// After this long the platform would kill: so does the drill, and that is a failure. 30 s if left out.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How much is tried.
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Runs this check, or this group of checks, and no others that are not named too.
    pub fn check(mut self, id: impl Into<String>) -> Self {
        self.only.push(id.into());
        self
    }

    /// Leaves this check or group out.
    pub fn skip(mut self, id: impl Into<String>) -> Self {
        self.skip.push(id.into());
        self
    }

    /// Runs this check, or this group of checks, whatever the level is. If it is skipped, it has failed.
    pub fn require(mut self, id: impl Into<String>) -> Self {
        self.require.push(id.into());
        self
    }

    /// Changes what a check demands: `("idle-keepalive", "5s")`.
    pub fn threshold(mut self, id: impl Into<String>, value: impl Into<String>) -> Self {
        self.thresholds.push((id.into(), value.into()));
        self
    }

    /// Runs every check so many times. Once if left out.
    pub const fn repeat(mut self, times: u32) -> Self {
        self.repeat = times;
        self
    }

    /// What the choices of the drill are drawn from. Drawn itself if left out; the report has it.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many clients a load has. 32 if left out.
    pub const fn clients(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// SIGHUP means *read your configuration again*, so that the checks about it apply.
    pub const fn reload(mut self) -> Self {
        self.reload = true;
        self
    }

    /// At this signal the program is replaced by its new version and goes on serving, so that `deploy-unnoticed` applies: SIGUSR2
    /// for a hand-off of adieu, SIGHUP under `adieu run`.
    pub const fn restart_signal(mut self, signal: StopSignal) -> Self {
        self.restart_signal = Some(signal);
        self
    }

    /// The program takes its listening socket as descriptor 3, as systemd passes it, so that `rolling-restart` applies. If
    /// its command has no `{port}` it is handed the socket at every start, and the drill keeps none but in that check.
    pub const fn held_socket(mut self) -> Self {
        self.held_socket = true;
        self
    }

    /// The file in which the program keeps its state. It must parse after every end.
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_file = Some(path.into());
        self
    }

    /// A shell command that ends with 0 if the state of the stopped program is whole.
    pub fn state_command(mut self, command: impl Into<String>) -> Self {
        self.state_command = Some(command.into());
        self
    }

    /// A shell command that gives the running program work before a stop, and prints what it gave, an entry a line. With
    /// [`ledger`](Self::ledger) it is seen whether all of it is done after a restart.
    pub fn feed(mut self, command: impl Into<String>) -> Self {
        self.feed = Some(command.into());
        self
    }

    /// A shell command that prints what the running program has on its books, an entry a line.
    pub fn ledger(mut self, command: impl Into<String>) -> Self {
        self.ledger = Some(command.into());
        self
    }

    /// Who hears how it goes.
    pub fn progress(mut self, progress: impl Progress + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Whether the program learns of its port by nothing but a socket that it is handed.
    pub(crate) fn takes_socket(&self) -> bool {
        let env = self.launch.env.iter().map(|(_, value)| value);
        let mut words = self.launch.command.iter().chain(env);
        self.held_socket && !words.any(|word| word.contains(Placeholders::PORT))
    }

    /// Where the program is with these ports.
    pub(crate) fn endpoint(&self, placeholders: &Placeholders) -> Result<Endpoint, String> {
        match &self.address {
            Some(Address::Http(url)) => {
                let endpoint = Endpoint::parse_url(&placeholders.fill(url))?;
                Ok(endpoint.with_request(|request| {
                    request.headers.extend(self.headers.iter().cloned());
                    request.body.clone_from(&self.body);
                    request.method = match &self.method {
                        Some(method) => method.clone(),
                        None if self.body.is_empty() => "GET".to_owned(),
                        None => "POST".to_owned(),
                    };
                }))
            }
            Some(Address::Tcp(address)) => {
                Endpoint::parse_tcp(&placeholders.fill(address), self.tls)
            }
            // No server listens there, and no client connects: the checks that would are skipped.
            None => Endpoint::parse_tcp(&placeholders.fill("127.0.0.1:{port}"), false),
        }
    }
}
