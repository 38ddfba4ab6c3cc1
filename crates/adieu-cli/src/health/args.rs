//! The options of `adieu health`.

use std::time::Duration;

use clap::Args;

use super::{Statuses, Target};

/// HTTP or TCP health check for containers without curl: exit 0 healthy, 1 unhealthy, 2 usage.
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  adieu health http://127.0.0.1:8080/readyz
  adieu health --tcp 127.0.0.1:5432
  adieu health unix:/run/orders.admin:/readyz

in a Dockerfile:
  HEALTHCHECK CMD [\"adieu\", \"health\", \"http://127.0.0.1:8080/livez\"]")]
pub(crate) struct HealthArgs {
    /// http://HOST:PORT/PATH, or unix:/PATH/OF.SOCKET:/PATH
    #[arg(required_unless_present = "tcp", conflicts_with = "tcp")]
    url: Option<String>,
    /// Only connect to HOST:PORT or unix:/PATH/OF.SOCKET
    #[arg(long, value_name = "ADDR", conflicts_with = "status")]
    tcp: Option<String>,
    /// Time limit for the whole check
    #[arg(long, default_value = "3s", value_parser = time_out)]
    pub(super) timeout: Duration,
    /// Healthy statuses, e.g. 200-299 or 200,204
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
        return Err("the timeout must be at least 1ms".to_owned());
    }
    Ok(time)
}
