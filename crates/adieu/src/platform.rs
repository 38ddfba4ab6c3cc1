//! Where we run, and how long the platform will wait for us.

use std::path::Path;
use std::time::Duration;

/// The grace period that fits the platform: shorter than the time after which it kills.
///
/// `docker stop` kills after 10 s, Kubernetes after 30 s, systemd after 90 s.
pub(crate) fn default_grace() -> Duration {
    let kubernetes = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let container = Path::new("/.dockerenv").exists()
        || Path::new("/run/.containerenv").exists()
        || std::env::var_os("container").is_some();
    fitting_grace(kubernetes, container)
}

const fn fitting_grace(kubernetes: bool, container: bool) -> Duration {
    match (kubernetes, container) {
        (false, true) => Duration::from_secs(8),
        _ => Duration::from_secs(25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_than_the_platform_waits() {
        assert!(fitting_grace(false, true) < Duration::from_secs(10));
        assert!(fitting_grace(true, true) < Duration::from_secs(30));
        assert_eq!(fitting_grace(false, false), Duration::from_secs(25));
    }
}
