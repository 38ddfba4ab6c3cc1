//! The options of `adieu run`, as they are written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Run a program with a life cycle: signals, descendants, health, restarts, a stop that loses nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  adieu run -- uvicorn shop:app
  adieu run --pre-stop 5s --grace 25s --health 8080 --probe-http http://127.0.0.1:8000/ -- ./server
  adieu run --listen tcp:0.0.0.0:8000 -- uvicorn shop:app --fd 3     (SIGHUP: the next version, nothing lost)
  adieu run --signal term=quit -- nginx -g 'daemon off;'

exit code: that of the command, or 128 + the signal that ended it; 125 adieu run itself failed, 126 the command
cannot be executed, 127 there is no such command, 2 usage")]
pub(crate) struct RunArgs {
    /// The whole time of a stop; then SIGKILL to everything [default: 25s, in a plain container 8s]
    #[arg(long, value_name = "TIME", env = "ADIEU_GRACE", value_parser = adieu::parse_duration)]
    pub(super) grace: Option<Duration>,
    /// Go on as before for so long once readiness is off; part of the grace
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = adieu::parse_duration)]
    pub(super) pre_stop: Duration,
    /// Pass a signal on as another, as in term=quit; `none` keeps it to ourselves
    #[arg(long = "signal", value_name = "FROM=TO")]
    pub(super) signals: Vec<String>,
    /// Pass signals on to the whole process group, not to the command alone
    #[arg(long)]
    pub(super) group: bool,
    /// Do not hide the listening sockets before the command hears of the stop
    #[arg(long)]
    pub(super) no_cloak: bool,

    /// Start the command again when it ends
    #[arg(long, value_enum, default_value = "never", value_name = "WHEN")]
    pub(super) restart: RestartWhen,
    /// How many new starts within the window are borne
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(super) restart_limit: u32,
    /// The window
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = adieu::parse_duration)]
    pub(super) restart_window: Duration,
    /// The delay before the first new start; it doubles, up to 30s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = adieu::parse_duration)]
    pub(super) restart_delay: Duration,
    /// The command must send WATCHDOG=1 to NOTIFY_SOCKET at least so often, or it is aborted
    #[arg(long, value_name = "TIME", value_parser = adieu::parse_duration)]
    pub(super) watchdog: Option<Duration>,

    /// Answer /livez, /readyz and /health here, as in 127.0.0.1:8080 or 8080
    #[arg(long, value_name = "ADDR")]
    pub(super) health: Option<String>,
    /// Ready if this URL answers with a good status
    #[arg(long, value_name = "URL")]
    pub(super) probe_http: Option<String>,
    /// Ready if this address accepts connections
    #[arg(long, value_name = "ADDR")]
    pub(super) probe_tcp: Option<String>,
    /// Ready if this command, for `sh -c`, ends with 0
    #[arg(long, value_name = "COMMAND")]
    pub(super) probe_command: Option<String>,
    /// How long a probe may take
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = adieu::parse_duration)]
    pub(super) probe_timeout: Duration,
    /// When the command counts as started: `start`, `accept` (it waits for connections on a socket of --listen),
    /// `notify` (READY=1), `probe`, or a time it must live for, as in 2s
    /// [default: probe with a probe, else accept with --listen, else start]
    #[arg(long, value_name = "WHEN")]
    pub(super) ready: Option<String>,
    /// How long it may take to get ready
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = adieu::parse_duration)]
    pub(super) ready_timeout: Duration,

    /// Open a socket and hand it to the command as LISTEN_FDS, as in tcp:0.0.0.0:8000, unix:/run/a.sock or
    /// `api=tcp:[::]:8000`
    #[arg(long, value_name = "SOCKET")]
    pub(super) listen: Vec<String>,
    /// Restart without a gap, as for SIGHUP, when something changes here
    #[arg(long, value_name = "PATH")]
    pub(super) watch: Vec<PathBuf>,

    /// Write the report there as JSON
    #[arg(long, value_name = "FILE", env = "ADIEU_REPORT")]
    pub(super) report: Option<PathBuf>,
    /// Say nothing but what went wrong
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestartWhen {
    /// When it has ended, we end.
    Never,
    /// When it ended with another code than 0, or by a signal.
    OnFailure,
    /// Whenever it ended without being asked to.
    Always,
}
