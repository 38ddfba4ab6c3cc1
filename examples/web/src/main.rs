//! An HTTP server with every kind of answer: fast, slow, streamed, events, WebSocket, upload.
//!
//! HTTP/1.1 and HTTP/2 come in on the same port, with TLS or without. SIGHUP reads the certificate and the message of
//! the day again.

mod routes;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Serves every kind of answer, and loses none when it stops.
#[derive(Parser)]
struct Options {
    /// Where to listen, as in 127.0.0.1:8080 or unix:/tmp/web.sock
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Where to answer for health and metrics, as in 127.0.0.1:9100
    #[arg(long)]
    admin: Option<String>,
    /// How long a stop may take, as in 200ms or 2s
    #[arg(long, value_parser = adieu::parse_duration)]
    grace: Option<Duration>,
    /// How long to go on serving once readiness is off
    #[arg(long, value_parser = adieu::parse_duration)]
    lame_duck: Option<Duration>,
    /// How long to take before being ready, as one does that warms its caches
    #[arg(long, value_parser = adieu::parse_duration)]
    warm_up: Option<Duration>,
    /// How long a process that takes over after SIGUSR2 may take until it is ready
    #[arg(long, value_parser = adieu::parse_duration)]
    handoff_timeout: Option<Duration>,
    /// The certificate chain, PEM
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key, PEM
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The message of the day, for /motd; read again at SIGHUP
    #[arg(long)]
    motd: Option<PathBuf>,
    /// Where to write the report of the stop, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

fn main() -> adieu::Report {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // tracing would report it with eprintln!, which panics if standard error is closed.
        .log_internal_errors(false)
        .init();
    let mut service = adieu::service("web");
    if let Some(grace) = options.grace {
        service = service.grace(grace);
    }
    if let Some(lame_duck) = options.lame_duck {
        service = service.lame_duck(lame_duck);
    }
    if let Some(path) = options.report {
        service = service.report_file(path);
    }
    #[cfg(unix)]
    {
        service = service.handoff();
        if let Some(timeout) = options.handoff_timeout {
            service = service.handoff_timeout(timeout);
        }
    }
    service.run(async move |app: &mut adieu::App| {
        if let Some(address) = options.admin {
            let admin = app.admin(address).await?;
            if let Some(address) = admin.local_addr() {
                let _ = writeln!(io::stdout(), "admin on {address}");
            }
        }
        let motd = app
            .reload("motd", move || read_motd(options.motd.clone()))
            .await?;
        motd.check("motd", |text| match text.trim() {
            "" => Err("a message of the day says something"),
            _ => Ok(()),
        });
        let mut listen = app.listen("web", options.listen);
        if let (Some(certificate), Some(key)) = (options.tls_cert, options.tls_key) {
            listen = listen.tls(certificate, key);
        }
        let listener = listen.await?;
        if let Some(warm_up) = options.warm_up {
            app.stop().sleep(warm_up).await;
        }
        let listener = listener.on_listening(|address| {
            // Not println!, which panics if standard output is closed.
            let _ = writeln!(io::stdout(), "listening on {address}");
        });
        app.http(listener, routes::router(motd));
        Ok(())
    })
}

async fn read_motd(file: Option<PathBuf>) -> io::Result<String> {
    match file {
        Some(file) => tokio::fs::read_to_string(&file)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
        None => Ok("nothing new\n".to_owned()),
    }
}
