//! What `adieu drill` understands.

use std::path::PathBuf;
use std::time::Duration;

use adieu_drill::{StopSignal, parse_duration};
use clap::Args;

/// Prove from outside that a program stops well: start it, put traffic on it, stop it, and see what was lost.
#[derive(Debug, Args)]
#[command(
    override_usage = "adieu drill --http URL [OPTIONS] -- COMMAND...\n       \
                      adieu drill --tcp ADDRESS [OPTIONS] -- COMMAND...\n       \
                      adieu drill --ready-line TEXT [OPTIONS] -- COMMAND...\n       \
                      adieu drill --file drill.toml [OPTIONS]",
    after_help = "In commands, addresses and paths {port} is replaced by a free port ({port2} and {port3} by others), {dir} \
                  by a directory of the drill's.\n\
                  Exit code: 0 no check failed, 1 a check failed, 2 wrong usage, 4 the program could not be started."
)]
pub(crate) struct DrillArgs {
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,

    /// Targets from a file, in the place of a command.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "http", "tcp"], help_heading = "What")]
    pub(crate) file: Option<PathBuf>,
    /// Of the targets in the file only these.
    #[arg(
        long,
        value_name = "NAME",
        requires = "file",
        value_delimiter = ',',
        help_heading = "What"
    )]
    pub(crate) target: Vec<String>,
    /// It speaks HTTP here, as in http://127.0.0.1:{port}/
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "tcp",
        help_heading = "What"
    )]
    pub(crate) http: Option<String>,
    /// It accepts connections here, as in 127.0.0.1:{port}
    #[arg(long, value_name = "ADDRESS", help_heading = "What")]
    pub(crate) tcp: Option<String>,
    /// Connections to --tcp are secured with TLS; any certificate is believed.
    #[arg(long, help_heading = "What")]
    pub(crate) tls: bool,
    /// What to call it in the report.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "file",
        help_heading = "What"
    )]
    pub(crate) name: Option<String>,
    /// A variable of its environment, as in PORT={port}
    #[arg(long, value_name = "NAME=VALUE", help_heading = "What")]
    pub(crate) env: Vec<String>,

    /// Ready when a line with this is printed.
    #[arg(
        long,
        value_name = "TEXT",
        group = "ready",
        help_heading = "Ready when"
    )]
    pub(crate) ready_line: Option<String>,
    /// Ready when this URL answers below 400.
    #[arg(long, value_name = "URL", group = "ready", help_heading = "Ready when")]
    pub(crate) ready_url: Option<String>,
    /// Ready when a connection is accepted here.
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
    /// How long that may take. 30s if left out.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Ready when")]
    pub(crate) ready_within: Option<Duration>,

    /// The signal that asks for a stop. SIGTERM if left out.
    #[arg(long, value_name = "SIGNAL", help_heading = "The stop")]
    pub(crate) signal: Option<StopSignal>,
    /// How long the platform waits before it kills. 30s if left out.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "The stop")]
    pub(crate) grace: Option<Duration>,
    /// SIGHUP means a reload.
    #[arg(long, help_heading = "The stop")]
    pub(crate) reload: bool,
    /// It takes its listening socket from LISTEN_FDS.
    #[arg(long, help_heading = "The stop")]
    pub(crate) held_socket: bool,

    /// A path that answers late, as in "/slow?ms={ms}"
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) slow: Option<String>,
    /// A path that streams for a second or so, and ends.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) stream: Option<String>,
    /// A path with a large answer.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) large: Option<String>,
    /// A path with server-sent events.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) sse: Option<String>,
    /// A path with a WebSocket.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) ws: Option<String>,
    /// A path that takes a body with POST.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) upload: Option<String>,
    /// The readiness probe, a path or a URL.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) readiness: Option<String>,
    /// The liveness probe, a path or a URL.
    #[arg(long, value_name = "PATH", help_heading = "Paths")]
    pub(crate) liveness: Option<String>,
    /// A header of every request, as in "authorization: Bearer x"
    #[arg(long, value_name = "HEADER", help_heading = "Paths")]
    pub(crate) header: Vec<String>,
    /// The body of every request.
    #[arg(long, value_name = "TEXT", help_heading = "Paths")]
    pub(crate) body: Option<String>,
    /// The method of every request. GET, or POST with a body, if left out.
    #[arg(long, value_name = "METHOD", help_heading = "Paths")]
    pub(crate) method: Option<String>,

    /// A file that must parse after every end.
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub(crate) state_file: Option<PathBuf>,
    /// A command that ends with 0 if the state is whole.
    #[arg(long, value_name = "COMMAND", help_heading = "Data")]
    pub(crate) state_command: Option<String>,
    /// A command that prints what is on the books of the running program.
    #[arg(long, value_name = "COMMAND", help_heading = "Data")]
    pub(crate) ledger: Option<String>,

    /// The checks that say most in half a minute.
    #[arg(long, conflicts_with = "full", help_heading = "Checks")]
    pub(crate) quick: bool,
    /// Everything, and more often.
    #[arg(long, help_heading = "Checks")]
    pub(crate) full: bool,
    /// Only these checks or groups.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    pub(crate) check: Vec<String>,
    /// Not these checks or groups.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    pub(crate) skip: Vec<String>,
    /// What a check demands, as in idle-keepalive=5s
    #[arg(long, value_name = "ID=VALUE", help_heading = "Checks")]
    pub(crate) threshold: Vec<String>,
    /// Runs every check so many times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Checks")]
    pub(crate) repeat: Option<u32>,
    /// Makes the same choices as the run that reported this seed.
    #[arg(long, value_name = "N", help_heading = "Checks")]
    pub(crate) seed: Option<u64>,
    /// How many clients a load has. 32 if left out.
    #[arg(long, value_name = "N", help_heading = "Checks")]
    pub(crate) clients: Option<usize>,
    /// Names all checks and exits.
    #[arg(long, exclusive = true, help_heading = "Checks")]
    pub(crate) list: bool,
    /// Explains a check and exits.
    #[arg(long, value_name = "ID", exclusive = true, help_heading = "Checks")]
    pub(crate) explain: Option<String>,

    /// Standard output is the report as one JSON object.
    #[arg(long, help_heading = "Reports")]
    pub(crate) json: bool,
    /// Writes the report for a build server.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) junit: Option<PathBuf>,
    /// Writes the report as a page for a browser.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) html: Option<PathBuf>,
    /// Compares two reports written with --json, and drills nothing. Exit code 1 if something got worse.
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["command", "file", "http", "tcp"], help_heading = "Reports")]
    pub(crate) compare: Option<Vec<PathBuf>>,
}
