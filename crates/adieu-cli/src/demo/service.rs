//! The demo service: an adieu service with every kind of answer and a port for probes.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{ExitCode, Termination};
use std::time::Duration;

use super::routes;

/// Serves until a stop signal arrives.
pub(super) fn serve(port: u16, admin: u16) -> ExitCode {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
    adieu::service("demo")
        .grace(Duration::from_secs(10))
        .run(async move |app: &mut adieu::App| {
            app.admin(local(admin)).await?;
            let listener = app.listen("web", local(port)).await?;
            app.http(listener, routes::router());
            Ok(())
        })
        .report()
}
