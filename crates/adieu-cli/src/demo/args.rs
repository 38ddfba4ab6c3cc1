//! What `adieu demo` understands: little.

use std::path::PathBuf;

use clap::Args;

/// Drill a built-in demo service; nothing to set up.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 all passed, 1 a check failed, 2 wrong usage, 3 every check was skipped, 4 the service could not be started."
)]
pub(crate) struct DemoArgs {
    /// Write the HTML report here.
    #[arg(long, value_name = "FILE", default_value = "adieu-demo.html")]
    pub(crate) html: PathBuf,

    /// Replace the service so often instead, and count on a keep-alive connection, a WebSocket and a stream of events that no
    /// deploy closes. Linux only.
    #[arg(long, value_name = "N", conflicts_with = "serve", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) deploys: Option<u32>,

    /// Be the service of `--deploys`. It starts this program again with it.
    #[arg(long, hide = true)]
    pub(crate) serve_counter: bool,

    /// Be the service, on this port. The drill starts this program again with it.
    #[arg(long, value_name = "PORT", hide = true, requires = "admin")]
    pub(crate) serve: Option<u16>,

    /// The service's port for probes.
    #[arg(long, value_name = "PORT", hide = true, requires = "serve")]
    pub(crate) admin: Option<u16>,
}
