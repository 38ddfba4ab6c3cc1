//! The options of `adieu health`.

use std::time::Duration;

use clap::Args;

use super::{Statuses, Target};

/// Ask a service how it is: exit 0 if it is well, 1 if not, 2 if the question makes no sense.
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  adieu health http://127.0.0.1:8080/readyz
  adieu health --tcp 127.0.0.1:5432
  adieu health unix:/run/orders.admin:/readyz

in a Dockerfile:
  HEALTHCHECK CMD [\"adieu\", \"health\", \"http://127.0.0.1:8080/livez\"]")]
pub(crate) struct HealthArgs {
    /// What to ask: http://host:port/path, or unix:/path/of.socket:/path
    #[arg(required_unless_present = "tcp", conflicts_with = "tcp")]
    url: Option<String>,
    /// Only connect to host:port or unix:/path/of.socket, and ask nothing
    #[arg(long, value_name = "ADDR", conflicts_with = "status")]
    tcp: Option<String>,
    /// How long the answer may take, in all
    #[arg(long, default_value = "3s", value_parser = time_out)]
    pub(super) timeout: Duration,
    /// Which answers are good ones, as in 200-299 or 200,204
    #[arg(long, default_value = "200-299")]
    pub(super) status: Statuses,
}

impl HealthArgs {
    pub(super) fn target(&self) -> Result<Target, String> {
        match (&self.url, &self.tcp) {
            (Some(url), _) => Target::url(url),
            (None, Some(address)) => Target::address(address),
            (None, None) => Err("give a URL, or an address with --tcp".to_owned()),
        }
    }
}

/// A time in which something can happen.
fn time_out(text: &str) -> Result<Duration, String> {
    let time = adieu::parse_duration(text).map_err(|invalid| invalid.to_string())?;
    if time.is_zero() {
        return Err("no answer comes in no time: give at least 1ms".to_owned());
    }
    Ok(time)
}
