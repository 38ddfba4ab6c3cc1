//! What `adieu drill` understands.

use std::path::PathBuf;
use std::time::Duration;

use adieu::parse_duration;
use adieu_drill::report::Level;
use clap::Args;

use super::options::DrillOptions;

/// Options about a program that the drill starts and stops itself.
const NOT_WITH_ROLLOUT: [&str; 36] = [
    "command",
    "file",
    "target",
    "http",
    "tcp",
    "tls",
    "env",
    "ready_line",
    "ready_url",
    "ready_tcp",
    "ready_notify",
    "ready_within",
    "signal",
    "grace",
    "reload",
    "restart_signal",
    "held_socket",
    "slow",
    "stream",
    "large",
    "sse",
    "ws",
    "upload",
    "readiness",
    "liveness",
    "state_file",
    "state_command",
    "feed",
    "ledger",
    "quick",
    "full",
    "check",
    "skip",
    "require",
    "compare",
    "jobs",
];

/// Options about a program that is spoken to, and about other kinds of drills.
const NOT_WITH_JOBS: [&str; 29] = [
    "file",
    "target",
    "http",
    "tcp",
    "tls",
    "reload",
    "restart_signal",
    "held_socket",
    "slow",
    "stream",
    "large",
    "sse",
    "ws",
    "upload",
    "readiness",
    "liveness",
    "state_file",
    "state_command",
    "feed",
    "ledger",
    "quick",
    "full",
    "check",
    "skip",
    "require",
    "repeat",
    "clients",
    "compare",
    "behind",
];

/// Connections of the clients of a roll-out.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ConnectionsArg {
    Kept,
    Fresh,
    Both,
}

/// Test how a program shuts down under load, and report every lost request.
#[derive(Debug, Args)]
#[command(
    override_usage = "adieu drill --http URL [OPTIONS] -- COMMAND...\n       \
                      adieu drill --tcp ADDRESS [OPTIONS] -- COMMAND...\n       \
                      adieu drill --ready-line TEXT [OPTIONS] -- COMMAND...\n       \
                      adieu drill --file drill.toml [OPTIONS]\n       \
                      adieu drill --rollout COMMAND --url URL [OPTIONS]\n       \
                      adieu drill --behind PROFILE --http URL [OPTIONS] -- COMMAND...\n       \
                      adieu drill --jobs N --enqueue COMMAND --done COMMAND [OPTIONS] -- WORKER...",
    after_help = "With --rollout nothing is started but COMMAND, which changes a deployment that serves already:\n  \
                  adieu drill --rollout 'docker compose up -d web' --url http://127.0.0.1:8080/ --rate 200\n  \
                  adieu drill --rollout 'kubectl rollout restart deploy/web && kubectl rollout status deploy/web' --url https://web.example/\n\n\
                  With --jobs several workers are stopped while they work, and each job has to be done once:\n  \
                  adieu drill --jobs 500 --enqueue 'python3 enqueue.py {from} {to}' --done 'redis-cli lrange done 0 -1' -- celery -A shop worker\n\n\
                  In commands, addresses and paths {port} is replaced by a free port ({port2} and {port3} by others), {dir} \
                  by a directory of the drill's.\n\
                  Exit code: 0 at least one check passed and none failed, 1 a check failed, 2 wrong usage or a path that does not \
                  answer as said, 3 every check was skipped, 4 the program could not be started, or \
                  a deployment does not answer, or the command of a roll-out, of --enqueue or of --done fails."
)]
pub(crate) struct DrillArgs {
    #[command(flatten)]
    pub(crate) options: DrillOptions,

    /// Read targets from a file, e.g. drill.toml.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "http", "tcp"], help_heading = "Target")]
    pub(crate) file: Option<PathBuf>,
    /// Only these targets of --file.
    #[arg(
        long,
        value_name = "NAME",
        requires = "file",
        value_delimiter = ',',
        help_heading = "Target"
    )]
    pub(crate) target: Vec<String>,

    /// Test a roll-out: run this shell command, which changes a running deployment, under load at --url.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "url",
        groups = ["deployment", "limited"],
        conflicts_with_all = NOT_WITH_ROLLOUT,
        help_heading = "Roll-out"
    )]
    pub(crate) rollout: Option<String>,
    /// Address of the running deployment, e.g. http://127.0.0.1:8080/
    #[arg(
        long,
        value_name = "URL",
        requires = "rollout",
        help_heading = "Roll-out"
    )]
    pub(crate) url: Option<String>,
    /// Requests per second, on a fixed schedule (open loop) [default: 100]; --clients is the closed loop: each client waits for its response.
    #[arg(
        long,
        value_name = "N",
        requires = "deployment",
        conflicts_with = "clients",
        help_heading = "Roll-out"
    )]
    pub(crate) rate: Option<f64>,
    /// Send requests on keep-alive connections, on a new one each, or half and half [default: both].
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        requires = "rollout",
        help_heading = "Roll-out"
    )]
    pub(crate) connections: Option<ConnectionsArg>,
    /// Time without a failed request after which the roll-out is over [default: 3s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "rollout", help_heading = "Roll-out")]
    pub(crate) steady: Option<Duration>,
    /// Time limit for the command, and again for the traffic to become steady [default: 10m]; with --jobs, for each run of
    /// --enqueue and --done [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "limited", help_heading = "Roll-out")]
    pub(crate) within: Option<Duration>,

    /// Test workers: enqueue N numbered jobs, stop workers at random instants, and report jobs that were lost or done twice.
    #[arg(
        long,
        value_name = "N",
        requires = "enqueue",
        requires = "done",
        group = "limited",
        conflicts_with_all = NOT_WITH_JOBS,
        help_heading = "Jobs"
    )]
    pub(crate) jobs: Option<u64>,
    /// Enqueues the jobs {from} to {to}, both included.
    #[arg(long, value_name = "COMMAND", requires = "jobs", help_heading = "Jobs")]
    pub(crate) enqueue: Option<String>,
    /// Prints a line for each job that was done: its number, or `17 start TIME $ADIEU_DRILL_WORKER` and `17 done TIME
    /// $ADIEU_DRILL_WORKER` for the checks about jobs in flight.
    #[arg(long, value_name = "COMMAND", requires = "jobs", help_heading = "Jobs")]
    pub(crate) done: Option<String>,
    /// Workers at a time [default: 2].
    #[arg(long, value_name = "N", requires = "jobs", help_heading = "Jobs")]
    pub(crate) workers: Option<u32>,
    /// Number of stops [default: 10].
    #[arg(long, value_name = "N", requires = "jobs", help_heading = "Jobs")]
    pub(crate) stops: Option<u32>,
    /// Send SIGKILL instead of the stop signal at every second stop.
    #[arg(long, requires = "jobs", help_heading = "Jobs")]
    pub(crate) kill: bool,
    /// How long a job may belong to a worker that is gone: the queue's visibility timeout [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "jobs", help_heading = "Jobs")]
    pub(crate) lease: Option<Duration>,

    /// Simulate a balancer before several instances, replace them one after the other, and attribute each lost request.
    /// PROFILE is kube-proxy, alb, nlb, nginx, haproxy, envoy, none, or the path of a TOML file; nginx:real and haproxy:real
    /// start the program itself.
    #[arg(
        long,
        value_name = "PROFILE",
        requires = "http",
        group = "deployment",
        conflicts_with_all = ["file", "tcp", "quick", "full", "check", "skip", "require", "repeat", "clients", "compare"],
        help_heading = "Balancer"
    )]
    pub(crate) behind: Option<String>,
    /// Number of instances [default: 2].
    #[arg(long, value_name = "N", requires = "behind", help_heading = "Balancer")]
    pub(crate) instances: Option<u32>,
    /// Time before the stop signal, as a preStop hook sleeps [default: none]. The grace period includes it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "behind", help_heading = "Balancer")]
    pub(crate) pre_stop: Option<Duration>,
    /// Replace the instances again with what is advised, if requests were lost.
    #[arg(long, requires = "behind", help_heading = "Balancer")]
    pub(crate) prove_advice: bool,

    /// The most important checks, under 30 s.
    #[arg(long, conflicts_with = "full", help_heading = "Checks")]
    pub(crate) quick: bool,
    /// All checks, more repetitions.
    #[arg(long, help_heading = "Checks")]
    pub(crate) full: bool,
    /// List the checks.
    #[arg(long, exclusive = true, help_heading = "Checks")]
    pub(crate) list: bool,
    /// Describe a check and how to fix failures.
    #[arg(long, value_name = "ID", exclusive = true, help_heading = "Checks")]
    pub(crate) explain: Option<String>,

    /// Print the report as one JSON object on standard output.
    #[arg(long, help_heading = "Reports")]
    pub(crate) json: bool,
    /// Leave the single requests out of --json.
    #[arg(long, requires = "json", help_heading = "Reports")]
    pub(crate) slim: bool,
    /// Write JUnit XML for CI, one suite per target.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a self-contained HTML page, all targets in one file.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) html: Option<PathBuf>,
    /// Write Markdown for a comment or the summary of a build.
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the JSON that a badge of shields.io reads (its endpoint).
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub(crate) badge: Option<PathBuf>,
    /// Print the JSON Schema of --json.
    #[arg(long, exclusive = true, help_heading = "Reports")]
    pub(crate) schema: bool,
    /// Compare two reports of --json; exit code 1 on regressions.
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["command", "file", "http", "tcp"], help_heading = "Reports")]
    pub(crate) compare: Option<Vec<PathBuf>>,

    /// Be the process that ends what a drill with this mark has started, once the drill is gone.
    #[arg(long, value_name = "MARK", hide = true, exclusive = true)]
    pub(crate) guard: Option<String>,
}

impl DrillArgs {
    /// What the command line says about a drill.
    pub(super) fn said(&self) -> DrillOptions {
        let level = match (self.quick, self.full) {
            (true, _) => Some(Level::Quick),
            (_, true) => Some(Level::Full),
            _ => None,
        };
        DrillOptions {
            level,
            ..self.options.clone()
        }
    }
}
