//! From the arguments, or a table of a file, to a drill.

use std::path::PathBuf;
use std::time::Duration;

use adieu_drill::report::Level;
use adieu_drill::{Drill, Ready, StopSignal};

use super::args::DrillArgs;

/// What can be said about a drill, on the command line and in a file alike. What is absent is left as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct DrillOptions {
    pub(super) name: Option<String>,
    pub(super) command: Vec<String>,
    pub(super) http: Option<String>,
    pub(super) tcp: Option<String>,
    pub(super) tls: bool,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) ready: Option<Ready>,
    pub(super) ready_within: Option<Duration>,
    pub(super) signal: Option<StopSignal>,
    pub(super) grace: Option<Duration>,
    pub(super) reload: bool,
    pub(super) restart_signal: Option<StopSignal>,
    pub(super) held_socket: bool,
    pub(super) slow: Option<String>,
    pub(super) stream: Option<String>,
    pub(super) large: Option<String>,
    pub(super) sse: Option<String>,
    pub(super) ws: Option<String>,
    pub(super) upload: Option<String>,
    pub(super) readiness: Option<String>,
    pub(super) liveness: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    pub(super) method: Option<String>,
    pub(super) state_file: Option<PathBuf>,
    pub(super) state_command: Option<String>,
    pub(super) feed: Option<String>,
    pub(super) ledger: Option<String>,
    pub(super) level: Option<Level>,
    pub(super) check: Vec<String>,
    pub(super) skip: Vec<String>,
    pub(super) require: Vec<String>,
    pub(super) threshold: Vec<(String, String)>,
    pub(super) repeat: Option<u32>,
    pub(super) seed: Option<u64>,
    pub(super) clients: Option<usize>,
}

/// Gives a macro the names of all targets that are one value, absent or not.
macro_rules! each_value {
    ($macro:ident) => {
        $macro!(
            name,
            http,
            tcp,
            cwd,
            ready,
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
    /// What the command line says.
    ///
    /// # Errors
    ///
    /// With a sentence, if a pair is none.
    pub(super) fn of(args: &DrillArgs) -> Result<Self, String> {
        let pairs = |words: &[String], between: char, what: &str| {
            let split = |word: &String| {
                let pair = word.split_once(between);
                let pair =
                    pair.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
                // The value may be a secret: only what stands before it is shown.
                pair.ok_or_else(|| format!("{what}: there is no `{between}` in what was given"))
            };
            words.iter().map(split).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            name: args.name.clone(),
            command: args.command.clone(),
            http: args.http.clone(),
            tcp: args.tcp.clone(),
            tls: args.tls,
            env: pairs(&args.env, '=', "--env NAME=VALUE")?,
            cwd: args.cwd.clone(),
            ready: ready(args),
            ready_within: args.ready_within,
            signal: args.signal,
            grace: args.grace,
            reload: args.reload,
            restart_signal: args.restart_signal,
            held_socket: args.held_socket,
            slow: args.slow.clone(),
            stream: args.stream.clone(),
            large: args.large.clone(),
            sse: args.sse.clone(),
            ws: args.ws.clone(),
            upload: args.upload.clone(),
            readiness: args.readiness.clone(),
            liveness: args.liveness.clone(),
            headers: pairs(&args.header, ':', "--header \"NAME: VALUE\"")?,
            body: args.body.clone(),
            method: args.method.clone(),
            state_file: args.state_file.clone(),
            state_command: args.state_command.clone(),
            feed: args.feed.clone(),
            ledger: args.ledger.clone(),
            level: match (args.quick, args.full) {
                (true, _) => Some(Level::Quick),
                (_, true) => Some(Level::Full),
                _ => None,
            },
            check: args.check.clone(),
            skip: args.skip.clone(),
            require: args.require.clone(),
            threshold: pairs(&args.threshold, '=', "--threshold ID=VALUE")?,
            repeat: args.repeat,
            seed: args.seed,
            clients: args.clients,
        })
    }

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
        // A program is spoken to in one way: the stronger address takes the place of the other.
        let below = if over.http.is_some() || over.tcp.is_some() {
            Self {
                http: None,
                tcp: None,
                ..self
            }
        } else {
            self
        };
        macro_rules! stronger {
            ($($field:ident),*) => { Self { $($field: over.$field.clone().or(below.$field),)*
                command: list(below.command, &over.command),
                tls: below.tls || over.tls,
                env: joined(below.env, &over.env),
                reload: below.reload || over.reload,
                held_socket: below.held_socket || over.held_socket,
                headers: joined(below.headers, &over.headers),
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
        macro_rules! pairs {
            ($($field:ident as $method:ident),*) => {
                $(for (name, value) in &self.$field { drill = drill.$method(name, value); })*
            };
        }
        pairs!(env as env, headers as header, threshold as threshold);
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
}

fn ready(args: &DrillArgs) -> Option<Ready> {
    let line = args.ready_line.clone().map(Ready::Line);
    let url = args.ready_url.clone().map(Ready::Url);
    let tcp = args.ready_tcp.clone().map(Ready::Tcp);
    line.or(url)
        .or(tcp)
        .or(args.ready_notify.then_some(Ready::Notify))
}
