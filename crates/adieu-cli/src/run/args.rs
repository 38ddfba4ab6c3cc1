//! The options of `adieu run`, as they are written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;

/// Run a command with graceful shutdown: PID 1, signal forwarding, health port, zero-downtime restarts.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "adieu run [OPTIONS] [--] COMMAND...\n       adieu run [OPTIONS] --file FILE",
    after_help = "\
examples:
  adieu run -- uvicorn shop:app
  adieu run --pre-stop 5s --grace 25s --health 8080 --probe-http http://127.0.0.1:8000/ -- ./server
  adieu run --listen tcp:0.0.0.0:8000 -- uvicorn shop:app --fd 3     (SIGHUP: zero-downtime restart)
  adieu run --listen tcp:0.0.0.0:8000 --workers 4 --restart on-failure -- uvicorn shop:app --fd 3
  adieu run --front tcp:0.0.0.0:8000 -- uvicorn shop:app --uds {socket}   (keep-alive connections stay open, too)
  adieu run --front tcp:0.0.0.0:8000 -- env PORT={port} node server.js
  adieu run --file run.toml                                          (several commands in one container)
  adieu run --signal term=quit -- nginx -g 'daemon off;'

New connections and those in the accept queue are not lost. Keep-alive connections are closed by the command: a request
that a client sends on one at that moment is lost unless the client repeats it. With --front they are adieu's, and stay
open when the command is restarted.

exit code: that of the command, or 128 + the signal that ended it; 1 if --restart always gave up after exits with 0, 125
adieu run itself failed, 126 the command cannot be executed, 127 there is no such command, 2 usage"
)]
pub(crate) struct RunArgs {
    /// Grace period; SIGKILL afterwards [default: 25s, in a plain container 8s] [env: ADIEU_GRACE]
    // Or ADIEU_GRACE, which is read elsewhere: beside this option it is the command's.
    #[arg(long, value_name = "TIME", help_heading = STOP)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) grace: Option<Duration>,
    /// Keep serving this long after readiness turns off (lame-duck period); counts toward --grace [default: 5s in Kubernetes, else 0s]
    #[arg(long, value_name = "TIME", help_heading = STOP)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) pre_stop: Option<Duration>,
    /// Forward FROM as TO, e.g. term=quit; TO may be `none`
    #[arg(long = "signal", value_name = "FROM=TO", help_heading = STOP)]
    pub(super) signals: Vec<String>,
    /// Signal the whole process group instead of the command only
    #[arg(long, short, help_heading = STOP)]
    pub(super) group: bool,
    /// Where this runs: cloud-run, container, ecs, fly, kubernetes, nomad, plain, systemd. Sets the defaults of --grace and
    /// --pre-stop; on fly and nomad a SIGINT reaches the command as SIGTERM [default: detected]
    #[arg(long, value_name = "PLATFORM", help_heading = STOP)]
    pub(super) platform: Option<String>,
    /// Do not drain the accept queue before forwarding the stop signal
    #[arg(long, help_heading = STOP)]
    pub(super) no_cloak: bool,

    /// Bind here and pass the socket to the command as LISTEN_FDS: [NAME=]tcp:HOST:PORT or [NAME=]unix:PATH; SIGHUP then
    /// restarts without downtime
    #[arg(long, value_name = "SOCKET", help_heading = SOCKETS)]
    pub(super) listen: Vec<String>,
    /// Take the clients' connections here and forward each HTTP request to the command, which listens where {socket} (a
    /// Unix socket) or {port} (of 127.0.0.1) stands in its arguments: SIGHUP then restarts it while keep-alive connections
    /// stay open. tcp:HOST:PORT or unix:PATH
    #[arg(long, value_name = "SOCKET", help_heading = SOCKETS)]
    #[cfg_attr(not(feature = "front"), arg(hide = true))]
    pub(super) front: Option<String>,
    /// How --front tells the command of the client: x-forwarded, forwarded, or keep what a trusted proxy has sent
    /// [default: x-forwarded]
    #[arg(long, value_name = "HEADERS", help_heading = SOCKETS)]
    #[cfg_attr(not(feature = "front"), arg(hide = true))]
    pub(super) front_headers: Option<String>,
    /// Also restart when something changes at PATH
    #[arg(long, value_name = "PATH", help_heading = SOCKETS)]
    pub(super) watch: Vec<PathBuf>,
    /// When a process counts as ready: start, accept (on a socket of --listen or --front), notify (READY=1), probe, or a
    /// time such as 2s [default: accept with --listen or --front, probe with a probe, both with both, else start]
    #[arg(long, value_name = "WHEN", help_heading = SOCKETS)]
    pub(super) ready: Option<String>,
    /// Give up on a new process that is not ready by then
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = SOCKETS)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) ready_timeout: Duration,

    /// Number of processes of the command; they share the sockets of --listen or the requests of --front, and SIGHUP restarts one after the other
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = SEVERAL)]
    pub(super) workers: u8,
    /// Read several commands from a TOML file: they start and stop in order, within one grace period
    #[arg(long, value_name = "FILE", help_heading = SEVERAL)]
    pub(super) file: Option<PathBuf>,

    /// Serve /livez, /readyz and /health here; a bare port binds 127.0.0.1, in Kubernetes every address of the pod
    #[arg(long, value_name = "ADDR", help_heading = HEALTH)]
    pub(super) health: Option<String>,
    /// Ready only if this URL returns 2xx
    #[arg(long, value_name = "URL", help_heading = HEALTH)]
    pub(super) probe_http: Option<String>,
    /// Ready only if this address accepts a connection
    #[arg(long, value_name = "ADDR", help_heading = HEALTH)]
    pub(super) probe_tcp: Option<String>,
    /// Ready only if `sh -c COMMAND` exits with 0
    #[arg(long, value_name = "COMMAND", help_heading = HEALTH)]
    pub(super) probe_command: Option<String>,
    /// Time limit for each probe
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = HEALTH)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) probe_timeout: Duration,
    /// Abort (SIGABRT) the command if it sends no WATCHDOG=1 to NOTIFY_SOCKET for TIME
    #[arg(long, value_name = "TIME", help_heading = HEALTH)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) watchdog: Option<Duration>,

    /// Restart the command when it has exited
    #[arg(long, value_enum, default_value = "never", value_name = "WHEN", help_heading = AGAIN)]
    pub(super) restart: RestartWhen,
    /// Maximum restarts within --restart-window [default: 5]
    #[arg(long, value_name = "COUNT", help_heading = AGAIN)]
    pub(super) restart_limit: Option<u32>,
    /// The window of --restart-limit [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = AGAIN)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) restart_window: Option<Duration>,
    /// Delay before the first restart; doubles up to 30s [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = AGAIN)]
    #[arg(value_parser = adieu::parse_duration)]
    pub(super) restart_delay: Option<Duration>,

    /// Write the shutdown report as JSON [env: ADIEU_REPORT]
    #[arg(long, value_name = "FILE", env = "ADIEU_REPORT", hide_env = true, help_heading = OUTPUT)]
    pub(super) report: Option<PathBuf>,
    /// Log warnings and errors only
    #[arg(long, short, help_heading = OUTPUT)]
    pub(super) quiet: bool,

    /// Also exit with 0 if the command exits with this code, as in 143; may be given again
    #[arg(long = "success-code", short = 'e', value_name = "CODE", help_heading = INIT)]
    pub(super) success_codes: Vec<u8>,
    /// Send this signal to adieu when its parent process ends
    #[arg(long, short, value_name = "SIGNAL", help_heading = INIT)]
    pub(super) parent_death_signal: Option<String>,
    /// Log every orphaned process that is reaped
    #[arg(long, short, help_heading = INIT)]
    pub(super) warn_reaped: bool,
    /// --signal in dumb-init's spelling, as in 15:3; to 0 keeps the signal from the command
    #[arg(long, short, value_name = "FROM:TO", help_heading = INIT)]
    pub(super) rewrite: Vec<String>,
    // What these ask for is always so.
    /// Accepted without effect: orphans are always reaped
    #[arg(short = 's', hide = true)]
    pub(super) subreaper: bool,
    /// Accepted without effect, unless with --group: signals go to the command alone
    #[arg(long, short = 'c', hide = true, conflicts_with = "group")]
    pub(super) single_child: bool,
    /// Accepted without effect: every step is logged
    #[arg(long, short, hide = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(super) verbose: u8,

    /// The command and its arguments
    // With `--` before it or without: its own options come after its name.
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "file",
        value_name = "COMMAND"
    )]
    pub(super) command: Vec<OsString>,
}

const STOP: &str = "Shutdown";
const SOCKETS: &str = "Zero-downtime restarts";
const SEVERAL: &str = "Several processes";
const HEALTH: &str = "Health";
const AGAIN: &str = "Restart on exit";
const OUTPUT: &str = "Output";
const INIT: &str = "As an init (the short options are those of tini and dumb-init)";

// Without words for each: `--help` stays on one screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RestartWhen {
    Never,
    // When it ended with another code than 0, or by a signal.
    OnFailure,
    // Whenever it ended without being asked to.
    Always,
}
