//! The options of a drill: on the command line, in a table of `drill.toml`, and as a drill.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use adieu::parse_duration;
use adieu_drill::report::Level;
use adieu_drill::{Drill, Ready, StopSignal};
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use serde::{Deserialize, Deserializer, de};

/// What can be said about a drill, on the command line and in a table of `drill.toml` alike. What is absent is left as it
/// is.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct DrillOptions {
    /// The program to test, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Base URL of the program, e.g. http://127.0.0.1:{port}/
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "tcp",
        help_heading = "Target"
    )]
    pub(crate) http: Option<String>,
    /// Address of a TCP program, e.g. 127.0.0.1:{port}
    #[arg(long, value_name = "ADDRESS", help_heading = "Target")]
    pub(crate) tcp: Option<String>,
    /// Use TLS for --tcp; certificates are not verified.
    #[arg(long, help_heading = "Target")]
    pub(crate) tls: bool,
    /// Name in reports.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "file",
        help_heading = "Target"
    )]
    pub(crate) name: Option<String>,
    /// Set an environment variable, e.g. PORT={port}
    #[arg(long, value_name = "NAME=VALUE", value_parser = PairParser::new('=', "--env NAME=VALUE"), help_heading = "Target")]
    #[serde(deserialize_with = "pairs")]
    pub(crate) env: Vec<(String, String)>,

    /// Working directory of the program and of the commands below.
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub(crate) cwd: Option<PathBuf>,

    /// Ready when it prints a line with TEXT.
    #[arg(
        long,
        value_name = "TEXT",
        group = "ready",
        help_heading = "Ready when"
    )]
    pub(crate) ready_line: Option<String>,
    /// Ready when URL returns a status below 400.
    #[arg(long, value_name = "URL", group = "ready", help_heading = "Ready when")]
    pub(crate) ready_url: Option<String>,
    /// Ready when ADDRESS accepts a connection.
    #[arg(
        long,
        value_name = "ADDRESS",
        group = "ready",
        help_heading = "Ready when"
    )]
    pub(crate) ready_tcp: Option<String>,
    /// Ready when it sends READY=1 to NOTIFY_SOCKET.
    #[arg(long, group = "ready", help_heading = "Ready when")]
    pub(crate) ready_notify: bool,
    /// Time limit for getting ready [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Ready when")]
    #[serde(deserialize_with = "time")]
    pub(crate) ready_within: Option<Duration>,

    /// Stop signal [default: SIGTERM].
    #[arg(long, value_name = "SIGNAL", help_heading = "Shutdown")]
    #[serde(deserialize_with = "signal")]
    pub(crate) signal: Option<StopSignal>,
    /// How long the platform waits before SIGKILL [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Shutdown")]
    #[serde(deserialize_with = "time")]
    pub(crate) grace: Option<Duration>,
    /// SIGHUP reloads the program: run the checks about it.
    #[arg(long, help_heading = "Shutdown")]
    pub(crate) reload: bool,
    /// The signal at which a new version takes over while the program goes on serving, e.g. SIGUSR2: run the check that
    /// no client notices it.
    #[arg(long, value_name = "SIGNAL", help_heading = "Shutdown")]
    #[serde(deserialize_with = "signal")]
    pub(crate) restart_signal: Option<StopSignal>,
    /// The program takes its listening socket as file descriptor 3 (LISTEN_FDS); without {port} in the command, at every start.
    #[arg(long, help_heading = "Shutdown")]
    pub(crate) held_socket: bool,

    /// A slow endpoint, e.g. "/slow?ms={ms}"
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) slow: Option<String>,
    /// A response that streams for about a second, and ends.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) stream: Option<String>,
    /// A large response.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) large: Option<String>,
    /// Server-sent events.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) sse: Option<String>,
    /// A WebSocket.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) ws: Option<String>,
    /// An endpoint that takes a body with POST.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) upload: Option<String>,
    /// The readiness probe: a path or a URL.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) readiness: Option<String>,
    /// The liveness probe: a path or a URL.
    #[arg(long, value_name = "PATH", help_heading = "Endpoints")]
    pub(crate) liveness: Option<String>,
    /// Header of every request, e.g. "authorization: Bearer x"
    #[arg(long, value_name = "HEADER", value_parser = PairParser::new(':', "--header \"NAME: VALUE\""), help_heading = "Endpoints")]
    #[serde(deserialize_with = "pairs")]
    pub(crate) header: Vec<(String, String)>,
    /// Body of every request.
    #[arg(long, value_name = "TEXT", help_heading = "Endpoints")]
    pub(crate) body: Option<String>,
    /// Method of every request [default: GET, or POST with a body].
    #[arg(long, value_name = "METHOD", help_heading = "Endpoints")]
    pub(crate) method: Option<String>,

    /// Must be valid (JSON, TOML or NDJSON) after every exit.
    #[arg(long, value_name = "FILE", help_heading = "State")]
    pub(crate) state_file: Option<PathBuf>,
    /// Must exit with 0 if the state is consistent.
    #[arg(long, value_name = "COMMAND", help_heading = "State")]
    pub(crate) state_command: Option<String>,
    /// Gives the running program work before the stop, and prints one line per item.
    #[arg(long, value_name = "COMMAND", help_heading = "State")]
    pub(crate) feed: Option<String>,
    /// Prints one line per item that the program has stored; lines must survive a restart.
    #[arg(long, value_name = "COMMAND", help_heading = "State")]
    pub(crate) ledger: Option<String>,
    /// Run only these checks or groups.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    pub(crate) check: Vec<String>,
    /// Skip these checks or groups.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    pub(crate) skip: Vec<String>,
    /// Fail if one of these checks or groups is skipped.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    pub(crate) require: Vec<String>,
    /// Override a limit, e.g. idle-keepalive=5s
    #[arg(long, value_name = "ID=VALUE", value_parser = PairParser::new('=', "--threshold ID=VALUE"), help_heading = "Checks")]
    #[serde(deserialize_with = "pairs")]
    pub(crate) threshold: Vec<(String, String)>,
    /// Repeat each check N times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Checks")]
    pub(crate) repeat: Option<u32>,
    /// Reproduce the run that reported this seed.
    #[arg(long, value_name = "N", help_heading = "Checks")]
    pub(crate) seed: Option<u64>,
    /// Concurrent clients [default: 32].
    #[arg(long, value_name = "N", help_heading = "Checks")]
    pub(crate) clients: Option<usize>,
    /// `quick`, `default` or `full`; on the command line `--quick` and `--full`.
    #[arg(skip)]
    pub(crate) level: Option<Level>,
}

/// Gives a macro the names of all targets that are one value, absent or not.
macro_rules! each_value {
    ($macro:ident) => {
        $macro!(
            name,
            http,
            tcp,
            cwd,
            ready_within,
            signal,
            grace,
            restart_signal,
            slow,
            stream,
            large,
            sse,
            ws,
            upload,
            readiness,
            liveness,
            body,
            method,
            state_file,
            state_command,
            feed,
            ledger,
            level,
            repeat,
            seed,
            clients
        )
    };
}

impl DrillOptions {
    /// Both; where both say something, `over` is right. Lists of pairs are joined, the later pair being the stronger.
    pub(super) fn merged_with(self, over: &Self) -> Self {
        let joined = |mut below: Vec<(String, String)>, above: &[(String, String)]| {
            below.extend_from_slice(above);
            below
        };
        let list = |below: Vec<String>, above: &[String]| {
            if above.is_empty() {
                below
            } else {
                above.to_vec()
            }
        };
        // A program is spoken to in one way, and ready by one sign: the stronger one takes the place of the other.
        let mut below = self;
        if over.http.is_some() || over.tcp.is_some() {
            (below.http, below.tcp) = (None, None);
        }
        if over.ready().is_some() {
            (below.ready_line, below.ready_url, below.ready_tcp) = (None, None, None);
            below.ready_notify = false;
        }
        macro_rules! stronger {
            ($($field:ident),*) => { Self { $($field: over.$field.clone().or(below.$field),)*
                command: list(below.command, &over.command),
                ready_line: over.ready_line.clone().or(below.ready_line),
                ready_url: over.ready_url.clone().or(below.ready_url),
                ready_tcp: over.ready_tcp.clone().or(below.ready_tcp),
                ready_notify: below.ready_notify || over.ready_notify,
                tls: below.tls || over.tls,
                env: joined(below.env, &over.env),
                reload: below.reload || over.reload,
                held_socket: below.held_socket || over.held_socket,
                header: joined(below.header, &over.header),
                check: list(below.check, &over.check),
                skip: list(below.skip, &over.skip),
                require: list(below.require, &over.require),
                threshold: joined(below.threshold, &over.threshold),
            } };
        }
        each_value!(stronger)
    }

    /// The drill that was wished for.
    pub(super) fn drill(&self) -> Drill {
        let mut drill = Drill::command(self.command.iter().cloned()).alone();
        macro_rules! with {
            ($($field:ident),*) => { $(if let Some(value) = &self.$field { drill = drill.$field(value.clone()); })* };
        }
        each_value!(with);
        if let Some(ready) = self.ready() {
            drill = drill.ready(ready);
        }
        macro_rules! pairs {
            ($($field:ident),*) => { $(for (name, value) in &self.$field { drill = drill.$field(name, value); })* };
        }
        pairs!(env, header, threshold);
        for id in &self.check {
            drill = drill.check(id);
        }
        for id in &self.skip {
            drill = drill.skip(id);
        }
        for id in &self.require {
            drill = drill.require(id);
        }
        if self.tls {
            drill = drill.tls();
        }
        if self.reload {
            drill = drill.reload();
        }
        if self.held_socket {
            drill = drill.held_socket();
        }
        drill
    }

    /// When the program counts as ready, if that was said.
    fn ready(&self) -> Option<Ready> {
        let line = self.ready_line.clone().map(Ready::Line);
        let url = self.ready_url.clone().map(Ready::Url);
        let tcp = self.ready_tcp.clone().map(Ready::Tcp);
        let notify = self.ready_notify.then_some(Ready::Notify);
        line.or(url).or(tcp).or(notify)
    }
}

/// Two words of the command line in one, as in `NAME=VALUE`.
#[derive(Clone)]
struct PairParser {
    between: char,
    what: &'static str,
}

impl PairParser {
    const fn new(between: char, what: &'static str) -> Self {
        Self { between, what }
    }
}

impl TypedValueParser for PairParser {
    type Value = (String, String);

    fn parse_ref(
        &self,
        _: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        // The value may be a secret: it is not shown.
        let refused = |why: String| {
            let sentence = format!("{}: {why}\n", self.what);
            clap::Error::raw(ErrorKind::ValueValidation, sentence)
        };
        let text = value.to_str();
        let text = text.ok_or_else(|| refused("it is not UTF-8".to_owned()))?;
        let pair = text.split_once(self.between);
        let (name, value) = pair
            .ok_or_else(|| refused(format!("there is no `{}` in what was given", self.between)))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(de::Error::custom)
}

fn signal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StopSignal>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// A table of values, each of which may be written as a number or as text.
fn pairs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Number(u64),
        Text(String),
    }
    let table = BTreeMap::<String, Value>::deserialize(from)?;
    let text = |value| match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text,
    };
    let pairs = table.into_iter();
    Ok(pairs.map(|(name, value)| (name, text(value))).collect())
}
