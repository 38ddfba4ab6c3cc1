//! The options of `adieu run`, as they are meant: what contradicts itself is refused here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use adieu::platform::Platform;

use super::address::{Address, has_port};
use super::args::{RestartWhen, RunArgs};
use super::command_file;
use super::exit_status::ExitStatus;
use super::front::FrontOptions;
use super::probe::Probe;
use super::signals::{self, Signal, SignalMap};
use super::timeouts::Timeouts;

/// Those of the whole run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) timeouts: Timeouts,
    pub(super) parent_death_signal: Option<Signal>,
    pub(super) warn_reaped: bool,
    pub(super) health: Option<String>,
    pub(super) report: Option<PathBuf>,
    pub(super) quiet: bool,
    /// At least one.
    pub(super) commands: Vec<CommandOptions>,
}

/// Those of one command.
#[derive(Clone, Debug)]
pub(crate) struct CommandOptions {
    /// In log and report.
    pub(super) name: String,
    pub(super) command: Vec<OsString>,
    /// Variables that only this command has.
    pub(super) environment: Vec<(String, String)>,
    pub(super) workers: usize,
    /// The commands that are ready before this one starts, by their place in the file.
    pub(super) after: Vec<usize>,
    /// The commands that have ended before this one is signalled to stop.
    pub(super) dependents: Vec<usize>,
    /// How many commands in a row are stopped from this one on, itself included: each has its share of the time.
    pub(super) levels: u32,
    /// It does its work and ends; what comes after it starts then.
    pub(super) once: bool,
    pub(super) signals: SignalMap,
    pub(super) to_group: bool,
    /// Exit codes of the command that count as 0.
    success_codes: Vec<u8>,
    pub(super) cloak: bool,
    pub(super) restart: RestartWhen,
    pub(super) restarts: adieu::Restart,
    pub(super) watchdog: Option<Duration>,
    pub(super) probes: Vec<Probe>,
    pub(super) ready: Ready,
    /// The probe that asks a socket of `--listen`, if there is one.
    pub(super) asks_own: Option<&'static str>,
    pub(super) ready_timeout: Duration,
    pub(super) listen: Vec<Address>,
    pub(super) front: Option<FrontOptions>,
    pub(super) watch: Vec<PathBuf>,
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
    /// When it waits for connections, and every probe is content.
    AcceptAndProbe,
    /// When it has lived for so long.
    After(Duration),
}

impl Options {
    pub(super) fn from_args(args: RunArgs) -> Result<Self, String> {
        let platform = platform(args.platform.as_deref())?;
        if let Some(address) = args.health.as_ref().filter(|it| !is_address(it)) {
            return Err(format!(
                "--health {address}: give host and port, or a port alone, as in 127.0.0.1:8080 or 8080"
            ));
        }
        let parent_death_signal = args.parent_death_signal.as_deref().map(signals::parse);
        let parent_death_signal = parent_death_signal
            .transpose()
            .map_err(|problem| format!("--parent-death-signal: {problem}"))?;
        let timeouts = Timeouts::new(platform, args.grace, args.pre_stop)?;
        let commands = match &args.file {
            Some(path) => command_file::read(path, &args, platform)?,
            None => vec![CommandOptions::from_args(args.clone(), platform)?],
        };
        Ok(Self {
            timeouts,
            parent_death_signal,
            warn_reaped: args.warn_reaped,
            health: args.health.map(within_reach),
            report: args.report.filter(|path| !path.as_os_str().is_empty()),
            quiet: args.quiet,
            commands,
        })
    }

    /// The name of the run in its report: that of its command, or of the first.
    pub(super) fn name(&self) -> String {
        let first = self.commands.first();
        first.map(|it| it.name.clone()).unwrap_or_default()
    }
}

impl CommandOptions {
    /// A command with no other beside it.
    pub(super) fn from_args(args: RunArgs, platform: Platform) -> Result<Self, String> {
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
        let mut signals = SignalMap::parse(&args.signals)?.rewrite(&args.rewrite)?;
        if platform.stops_with_interrupt() {
            signals = signals.interrupt_means_terminate();
        }
        let listen = Address::parse_all(&args.listen)?;
        let inherits_sockets = super::sockets::inherited_count() > 0;
        let hands_sockets = !listen.is_empty() || inherits_sockets;
        let front = front(&args, &listen, inherits_sockets)?;
        // Whether the next process can be started beside the one that serves.
        let replaces = hands_sockets || front.is_some();
        let ready = match args.ready.as_deref() {
            Some(text) => Ready::parse(text)?,
            None if !probes.is_empty() && replaces => Ready::AcceptAndProbe,
            None if !probes.is_empty() => Ready::Probe,
            None if replaces => Ready::Accept,
            None => Ready::Start,
        };
        match ready {
            Ready::Accept if !replaces => {
                return Err(
                    "--ready accept looks at the sockets of --listen and --front: give one"
                        .to_owned(),
                );
            }
            Ready::Probe if probes.is_empty() => {
                return Err(
                    "--ready probe asks --probe-http, --probe-tcp or --probe-command: give one"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let asks_own = probes.iter().find(|probe| {
            let target = probe.target();
            target.is_some_and(|target| listen.iter().any(|it| it.is_at(&target.place())))
        });
        let asks_own = asks_own.map(Probe::name);
        if let (Ready::Probe, Some(probe)) = (ready, asks_own) {
            return Err(format!(
                "--ready probe, and {probe} asks a socket of --listen: the queue and the old process answer it, whatever \
                 the new one does. Leave out --ready probe: it is then ready when it accepts and the probe is content"
            ));
        }
        let asks = [Ready::Probe, Ready::AcceptAndProbe].contains(&ready);
        if !probes.is_empty() && args.health.is_none() && !asks {
            return Err(
                "--probe-* has no effect without --health or --ready probe: give one".to_owned(),
            );
        }
        if !args.watch.is_empty() && !replaces {
            return Err(
                "--watch starts a second command beside the first, which needs --listen or --front: give one"
                    .to_owned(),
            );
        }
        if replaces && signals.has(Signal::HUP) {
            return Err(
                "with --listen or --front SIGHUP restarts the command and is not passed on: leave out --signal hup=…"
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
        let workers = usize::from(args.workers);
        if workers == 0 {
            return Err("--workers 0: give at least 1".to_owned());
        }
        Ok(Self {
            name: name_of(&args.command),
            command: args.command,
            environment: Vec::new(),
            workers,
            after: Vec::new(),
            dependents: Vec::new(),
            levels: 1,
            once: false,
            signals,
            to_group: args.group,
            success_codes: args.success_codes,
            cloak: !args.no_cloak,
            restart: args.restart,
            restarts,
            watchdog: args.watchdog,
            probes,
            ready,
            asks_own,
            ready_timeout: args.ready_timeout,
            listen,
            front,
            watch: args.watch,
        })
    }

    /// Whether the command has ended as it should.
    pub(super) fn is_success(&self, status: ExitStatus) -> bool {
        status.is_success() || self.success_codes.contains(&status.code())
    }
}

/// What stands behind `--front`, if it can be beside the other options.
fn front(
    args: &RunArgs,
    listen: &[Address],
    inherits_sockets: bool,
) -> Result<Option<FrontOptions>, String> {
    let headers = args.front_headers.as_deref();
    let front = FrontOptions::parse(args.front.as_deref(), headers, &args.command)?;
    let Some(address) = front.as_ref().map(FrontOptions::address) else {
        return Ok(None);
    };
    if inherits_sockets {
        return Err(format!(
            "--front {address}: sockets of the parent process (LISTEN_FDS) go to the command, which then takes connections by \
             itself: leave out one of them"
        ));
    }
    let place = address.place();
    let is_same = |it: &&Address| it.is_at(&place) || address.is_at(&it.place());
    if let Some(same) = listen.iter().find(is_same)
        && !place.ends_with(":0")
    {
        return Err(format!(
            "--front {address} and --listen {same} are the same address: with --front adieu takes the connections, leave \
             out --listen"
        ));
    }
    Ok(front)
}

/// The name of a command in log and report.
fn name_of(command: &[OsString]) -> String {
    let command = command.first().map(PathBuf::from).unwrap_or_default();
    let name = command.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The platform that was named, or the one that is detected.
fn platform(name: Option<&str>) -> Result<Platform, String> {
    let Some(name) = name else {
        return Ok(Platform::detect());
    };
    Platform::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Platform::ALL.iter().map(|it| it.name()).collect();
        format!(
            "--platform {name}: unknown platform; one of {}",
            names.join(", ")
        )
    })
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

/// How the command is started again. Options that would have no effect are refused.
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
            "{option} has no effect without --restart on-failure or --restart always"
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

/// A port alone means this machine alone, but for Kubernetes, where the kubelet asks from outside of the pod.
fn within_reach(address: String) -> String {
    let host = std::env::var("KUBERNETES_SERVICE_HOST").unwrap_or_default();
    let port = address.strip_prefix(':').unwrap_or(&address);
    match port.parse::<u16>() {
        Ok(port) if host.contains(':') => format!("[::]:{port}"),
        Ok(port) if !host.is_empty() => format!("0.0.0.0:{port}"),
        _ => address,
    }
}

/// Whether the admin port can be asked to listen there.
fn is_address(text: &str) -> bool {
    let port = text.strip_prefix(':').unwrap_or(text);
    port.parse::<u16>().is_ok() || has_port(text) || text.starts_with("unix:/")
}
