//! The options of `adieu run`, as they are meant: what contradicts itself is refused here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::address::{Address, has_port};
use super::args::{RestartWhen, RunArgs};
use super::probe::Probe;
use super::signals::{Signal, SignalMap};
use super::term::Term;

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) command: Vec<OsString>,
    pub(super) term: Term,
    pub(super) signals: SignalMap,
    pub(super) to_group: bool,
    pub(super) cloak: bool,
    pub(super) restart: RestartWhen,
    pub(super) restarts: adieu::Restart,
    pub(super) watchdog: Option<Duration>,
    pub(super) health: Option<String>,
    pub(super) probes: Vec<Probe>,
    pub(super) ready: Ready,
    pub(super) ready_timeout: Duration,
    pub(super) listen: Vec<Address>,
    pub(super) watch: Vec<PathBuf>,
    pub(super) report: Option<PathBuf>,
    pub(super) quiet: bool,
}

/// When the command counts as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// At once.
    Start,
    /// When it waits for connections on a socket that we hand it.
    Accept,
    /// When it says READY=1.
    Notify,
    /// When every probe is content.
    Probe,
    /// When it has lived for so long.
    After(Duration),
}

impl Options {
    pub(super) fn from_args(args: RunArgs) -> Result<Self, String> {
        let RunArgs {
            probe_http,
            probe_tcp,
            probe_command,
            probe_timeout,
            ..
        } = &args;
        let mut probes = Vec::new();
        if let Some(url) = probe_http {
            probes.push(
                Probe::http(url, *probe_timeout).map_err(|it| format!("--probe-http: {it}"))?,
            );
        }
        if let Some(address) = probe_tcp {
            let probe = Probe::tcp(address, *probe_timeout);
            probes.push(probe.map_err(|it| format!("--probe-tcp: {it}"))?);
        }
        if let Some(command) = probe_command {
            probes.push(Probe::command(command, *probe_timeout));
        }
        if let Some(address) = args.health.as_ref().filter(|it| !is_address(it)) {
            return Err(format!(
                "--health {address}: give host and port, or a port alone, as in 127.0.0.1:8080 or 8080"
            ));
        }
        let signals = SignalMap::parse(&args.signals)?;
        let listen = Address::parse_all(&args.listen)?;
        let hands_sockets = !listen.is_empty() || super::sockets::inherited_count() > 0;
        let ready = match args.ready.as_deref() {
            Some(text) => Ready::parse(text)?,
            None if !probes.is_empty() => Ready::Probe,
            None if hands_sockets => Ready::Accept,
            None => Ready::Start,
        };
        match ready {
            Ready::Accept if !hands_sockets => {
                return Err("--ready accept looks at the sockets of --listen: give one".to_owned());
            }
            Ready::Probe if probes.is_empty() => {
                return Err(
                    "--ready probe asks --probe-http, --probe-tcp or --probe-command: give one"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if !probes.is_empty() && args.health.is_none() && ready != Ready::Probe {
            return Err("nobody would ask the probe: give --health or --ready probe".to_owned());
        }
        if !args.watch.is_empty() && !hands_sockets {
            return Err(
                "--watch starts a second command beside the first, which needs the socket of --listen: give one"
                    .to_owned(),
            );
        }
        if hands_sockets && signals.has(Signal::HUP) {
            return Err(
                "with --listen SIGHUP restarts the command and is not passed on: leave out --signal hup=…"
                    .to_owned(),
            );
        }
        if args.watchdog.is_some_and(|time| time.is_zero()) {
            return Err("--watchdog 0s would abort the command at once: give a time".to_owned());
        }
        if args.ready_timeout.is_zero() {
            return Err(
                "--ready-timeout 0s leaves the command no time to get ready: give it some"
                    .to_owned(),
            );
        }
        let restarts = restarts(&args)?;
        let term = Term::new(args.grace, args.pre_stop, !args.no_cloak)?;
        Ok(Self {
            command: args.command,
            term,
            signals,
            to_group: args.group,
            cloak: !args.no_cloak,
            restart: args.restart,
            restarts,
            watchdog: args.watchdog,
            health: args.health,
            probes,
            ready,
            ready_timeout: args.ready_timeout,
            listen,
            watch: args.watch,
            report: args.report.filter(|path| !path.as_os_str().is_empty()),
            quiet: args.quiet,
        })
    }

    /// The name of the command in log and report.
    pub(super) fn name(&self) -> String {
        let command = self.command.first().map(PathBuf::from).unwrap_or_default();
        command
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

impl Ready {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "start" => Self::Start,
            "accept" => Self::Accept,
            "notify" => Self::Notify,
            "probe" => Self::Probe,
            time => Self::After(adieu::parse_duration(time).map_err(|_| {
                format!("--ready {text}: give start, accept, notify, probe or a time as in 2s")
            })?),
        })
    }
}

/// How the command is started again. Nobody is left to believe that it is if it is not.
fn restarts(args: &RunArgs) -> Result<adieu::Restart, String> {
    let said = [
        (args.restart_limit.is_some(), "--restart-limit"),
        (args.restart_window.is_some(), "--restart-window"),
        (args.restart_delay.is_some(), "--restart-delay"),
    ];
    if args.restart == RestartWhen::Never
        && let Some((_, option)) = said.iter().find(|(said, _)| *said)
    {
        return Err(format!(
            "{option} says how the command is started again: give --restart on-failure or always, too"
        ));
    }
    let first = args.restart_delay.unwrap_or(Duration::from_millis(100));
    Ok(adieu::Restart {
        first,
        limit: args.restart_limit.unwrap_or(5),
        window: args.restart_window.unwrap_or(Duration::from_secs(60)),
        longest: adieu::Restart::default().longest.max(first),
    })
}

/// Whether the admin port can be asked to listen there; a port alone means this machine alone.
fn is_address(text: &str) -> bool {
    let port = text.strip_prefix(':').unwrap_or(text);
    port.parse::<u16>().is_ok() || has_port(text) || text.starts_with("unix:/")
}
