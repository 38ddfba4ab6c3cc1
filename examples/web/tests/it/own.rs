//! A service in this process, for handlers that `example-web` does not have.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adieu::ShutdownHandle;
use adieu::http::Limits;
use axum::Router;
use tempfile::TempDir;

use crate::live::{End, Live, Runs};
use crate::web;

/// A service about to start.
#[must_use = "a service does nothing until `start`"]
pub(crate) struct Own {
    router: Router,
    limits: Limits,
    grace: Duration,
    tls: bool,
}

impl Own {
    pub(crate) fn new(router: Router) -> Self {
        Self {
            router,
            limits: Limits::default(),
            grace: Duration::from_secs(20),
            tls: false,
        }
    }

    pub(crate) const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    pub(crate) fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) const fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    pub(crate) fn start(self) -> Live {
        let directory = TempDir::new().expect("a directory for the certificate");
        let tls = self.tls.then(|| web::certificate(&directory));
        let certificate = tls.as_ref().map(|(certificate, ..)| certificate.clone());
        let (ready_to, ready) = mpsc::channel::<(SocketAddr, ShutdownHandle)>();
        let running = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
            let report = runtime.block_on(adieu::scope("own").grace(self.grace).run(
                async |app: &mut adieu::App| {
                    let mut listen = app.listen("web", "127.0.0.1:0");
                    if let Some((_, chain, key)) = tls {
                        listen = listen.tls(chain, key);
                    }
                    let handle = app.shutdown_handle();
                    let listener = listen.await?.on_listening(move |address| {
                        let address = address.parse().expect("an address");
                        let _ = ready_to.send((address, handle));
                    });
                    app.http(listener, self.router).limits(self.limits);
                    Ok(())
                },
            ));
            let at = Instant::now();
            // What upgraded connections have left behind is not ours to wait for.
            runtime.shutdown_background();
            End {
                code: Some(i32::from(report.exit_code())),
                report: serde_json::from_str(&report.to_json()).ok(),
                at,
            }
        });
        let (address, handle) = ready.recv().expect("the service starts");
        let running = Some(running);
        let service = Service {
            handle,
            running,
            _directory: directory,
        };
        Live::new(address, certificate, Box::new(service))
    }
}

struct Service {
    handle: ShutdownHandle,
    running: Option<JoinHandle<End>>,
    _directory: TempDir,
}

impl Runs for Service {
    fn stop(&mut self) {
        self.handle.stop("the test asks");
    }

    fn end(&mut self) -> End {
        let running = self.running.take().expect("it ends once");
        running.join().expect("the service does not panic")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.handle.stop("the test is over");
    }
}
