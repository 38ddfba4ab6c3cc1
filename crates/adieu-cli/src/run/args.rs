//! The options of `adieu run`, as they are written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Run a program with a life cycle: signals, descendants, health, restarts, a stop that loses nothing.
#[derive(Debug, Args)]
#[command(
    override_usage = "adieu run [OPTIONS] [--] COMMAND...",
    after_help = "\
examples:
  adieu run -- uvicorn shop:app
  adieu run --pre-stop 5s --grace 25s --health 8080 --probe-http http://127.0.0.1:8000/ -- ./server
  adieu run --listen tcp:0.0.0.0:8000 -- uvicorn shop:app --fd 3     (SIGHUP: the next version, nothing lost)
  adieu run --signal term=quit -- nginx -g 'daemon off;'

exit code: that of the command, or 128 + the signal that ended it; 125 adieu run itself failed, 126 the command
cannot be executed, 127 there is no such command, 2 usage"
)]
pub(crate) struct RunArgs {
    /// The whole time of a stop; then SIGKILL to everything. 25s if left out, in a plain container 8s
    // Or ADIEU_GRACE, which is read elsewhere: beside this option it is the command's.
    #[arg(long, value_name = "TIME", help_heading = STOP)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) grace: Option<Duration>,
    /// Go on as before for so long once readiness is off; part of the grace [default: 5s in Kubernetes, none elsewhere]
    #[arg(long, value_name = "TIME", help_heading = STOP)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) pre_stop: Option<Duration>,
    /// Pass a signal on as another, as in term=quit; `none` keeps it from the command
    #[arg(long = "signal", value_name = "FROM=TO", help_heading = STOP)]
    pub(super) signals: Vec<String>,
    /// Pass signals on to the whole process group, not to the command alone
    #[arg(long, help_heading = STOP)]
    pub(super) group: bool,
    /// Do not hide the listening sockets before the command hears of the stop
    #[arg(long, help_heading = STOP)]
    pub(super) no_cloak: bool,

    /// Open a socket once and hand it to the command as LISTEN_FDS, as in tcp:0.0.0.0:8000, unix:/run/a.sock or
    /// api=tcp:127.0.0.1:8000; SIGHUP then starts the next version on it
    #[arg(long, value_name = "SOCKET", help_heading = SOCKETS)]
    pub(super) listen: Vec<String>,
    /// Start the next version, as for SIGHUP, when something changes here
    #[arg(long, value_name = "PATH", help_heading = SOCKETS)]
    pub(super) watch: Vec<PathBuf>,
    /// When the command counts as started: start, accept (it waits for connections on a socket of --listen), notify
    /// (it says READY=1), probe, or a time it must live for, as in 2s. With a probe that is it, else accept with
    /// --listen, else start
    #[arg(long, value_name = "WHEN", help_heading = SOCKETS)]
    pub(super) ready: Option<String>,
    /// How long it may take to get ready
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = SOCKETS)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) ready_timeout: Duration,

    /// Answer /livez, /readyz and /health here, as in 127.0.0.1:8080 or 8080
    #[arg(long, value_name = "ADDR", help_heading = HEALTH)]
    pub(super) health: Option<String>,
    /// Ready if this URL answers with a good status
    #[arg(long, value_name = "URL", help_heading = HEALTH)]
    pub(super) probe_http: Option<String>,
    /// Ready if this address accepts connections
    #[arg(long, value_name = "ADDR", help_heading = HEALTH)]
    pub(super) probe_tcp: Option<String>,
    /// Ready if this command, for `sh -c`, ends with 0
    #[arg(long, value_name = "COMMAND", help_heading = HEALTH)]
    pub(super) probe_command: Option<String>,
    /// How long a probe may take
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = HEALTH)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) probe_timeout: Duration,
    /// The command must send WATCHDOG=1 to NOTIFY_SOCKET at least so often, or it is aborted
    #[arg(long, value_name = "TIME", help_heading = HEALTH)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) watchdog: Option<Duration>,

    /// Start the command again when it has ended
    #[arg(long, value_enum, default_value = "never", value_name = "WHEN", help_heading = AGAIN)]
    pub(super) restart: RestartWhen,
    /// How many new starts within the window are borne; 5 if left out
    #[arg(long, value_name = "COUNT", help_heading = AGAIN)]
    pub(super) restart_limit: Option<u32>,
    /// The window; 60s if left out
    #[arg(long, value_name = "TIME", help_heading = AGAIN)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) restart_window: Option<Duration>,
    /// The delay before the first new start; it doubles, up to 30s. 100ms if left out
    #[arg(long, value_name = "TIME", help_heading = AGAIN)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) restart_delay: Option<Duration>,

    /// Write the report there as JSON
    #[arg(long, value_name = "FILE", env = "ADIEU_REPORT", hide_env = true, help_heading = OUTPUT)]
    pub(super) report: Option<PathBuf>,
    /// Say nothing but what went wrong
    #[arg(long, short, help_heading = OUTPUT)]
    pub(super) quiet: bool,

    /// The command and its arguments
    // With `--` before it or without: its own options come after its name.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

const STOP: &str = "The stop";
const SOCKETS: &str = "The next version without a gap";
const HEALTH: &str = "Health";
const AGAIN: &str = "Restarts after an end";
const OUTPUT: &str = "Output";

// Without words for each: `--help` stays on one screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestartWhen {
    Never,
    // When it ended with another code than 0, or by a signal.
    OnFailure,
    // Whenever it ended without being asked to.
    Always,
}
