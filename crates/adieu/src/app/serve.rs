//! `serve(listener, router).await`: one HTTP server, with the stop of a service around it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::panic::Location;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Exit, Outcome};

use super::App;
use super::scope::scope;
use super::service::service;
use super::settings::Settings;
use crate::component::BoxFuture;
use crate::error::{Error, ErrorKind};
use crate::http::{HttpBuilder, HttpService, Limits, Serves};
#[cfg(feature = "tls-no-provider")]
use crate::net::TlsConfig;
use crate::net::{BoundListener, DrainCounts, Listener, OnListening, ProxyProtocol};
use crate::report::writer::PrintReport;
use crate::report::{LostWork, Notice, Report};
use crate::signal::AfterEnd;
use crate::util::duration;

/// The name of the server in log and report.
const PART: &str = "http";

/// Serves HTTP/1.1, and HTTP/2 with the feature `http2`, until SIGTERM or SIGINT comes, and then drains without losing a request:
/// `axum::serve` with the stop of a [`service`](crate::service()).
///
/// It takes what `axum::serve` takes: a `Router`, what `into_make_service()` and
/// `into_make_service_with_connect_info::<SocketAddr>()` give, or any other tower service; and a listener of tokio, of
/// the standard library, or a [`Listener`]. It needs the tokio runtime that it is awaited in, of either flavour.
///
/// ```no_run
/// # use axum::{Router, routing::get};
/// #[tokio::main]
/// async fn main() -> adieu::Result {
///     let router = Router::new().route("/", get(async || "hello"));
///     let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
///     adieu::serve(listener, router).await?;
///     Ok(())
/// }
/// ```
///
/// Awaited so, it owns the process as [`Service::run_in_place`](crate::Service::run_in_place) does: signals, `ADIEU_GRACE`
/// and similar ones, the lame duck that Kubernetes needs, systemd, the certain end, and the report on standard error if the end
/// was not clean. With [`with_graceful_shutdown`](Serve::with_graceful_shutdown) the program says when to stop, and none
/// of that is touched.
///
/// A program that has more to stop than one server, as pools and tasks, is a [`service`](crate::service()).
///
/// # Errors
/// If the listener does not listen, there is no tokio runtime, or a setting makes no sense. Requests that were cut are no
/// error: [`Drained`] names them.
#[track_caller]
pub fn serve<S, Kind>(listener: impl Into<BoundListener>, service: S) -> Serve
where
    S: HttpService<Kind>,
{
    Serve {
        settings: Settings::new(program_name(), PrintReport::Auto),
        listener: listener.into(),
        service: service.serves(),
        limits: Limits::default(),
        trigger: None,
        on_listening: None,
        #[cfg(feature = "tls-no-provider")]
        tls: None,
        proxies: None,
        place: Location::caller(),
    }
}

/// The name of the program's file, for log and report.
fn program_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    program
        .as_deref()
        .and_then(|path| path.file_stem())
        .map_or_else(
            || "serve".to_owned(),
            |it| it.to_string_lossy().into_owned(),
        )
}

/// A server about to run: await it. Made by [`serve`](serve()).
#[must_use = "a server does nothing until it is awaited"]
pub struct Serve {
    settings: Settings,
    listener: BoundListener,
    service: Serves,
    limits: Limits,
    trigger: Option<BoxFuture<()>>,
    on_listening: Option<OnListening>,
    #[cfg(feature = "tls-no-provider")]
    tls: Option<TlsConfig>,
    proxies: Option<ProxyProtocol>,
    place: &'static Location<'static>,
}

impl Serve {
    /// Stops when this future completes, and not by signals: the program has handlers of its own, or tests. Then nothing
    /// of the process is touched; the environment has no say.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> adieu::Result {
    /// # let router = axum::Router::new();
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    /// done.send(()).ok();
    /// let drained = adieu::serve(listener, router)
    ///     .with_graceful_shutdown(async { drop(is_done.await) })
    ///     .grace(std::time::Duration::from_secs(25))
    ///     .await?;
    /// assert!(drained.cut.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn with_graceful_shutdown(
        mut self,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.trigger = Some(Box::pin(signal));
        self
    }

    /// The name in log and report; that of the program's file, if left out.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        let named = Settings::new(name, self.settings.print);
        self.settings.name = named.name;
        self
    }

    /// The whole budget of a stop, as for [`Service::grace`](crate::Service::grace).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// How long to go on accepting once the stop has begun, as for [`Service::lame_duck`](crate::Service::lame_duck).
    pub fn lame_duck(mut self, lame_duck: Duration) -> Self {
        self.settings.lame_duck = Some(lame_duck);
        self
    }

    /// Other limits than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Speaks TLS, with the certificate chain and the key in these PEM files. HTTP/2 is offered with the feature
    /// `http2`.
    #[cfg(feature = "tls-no-provider")]
    pub fn tls(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls_config(TlsConfig::files(certificate, key))
    }

    /// Speaks TLS with this configuration: a [`rustls::ServerConfig`](crate::net::rustls::ServerConfig), or a [`TlsConfig`]
    /// that comes anew at every reload.
    #[cfg(feature = "tls-no-provider")]
    pub fn tls_config(mut self, config: impl Into<TlsConfig>) -> Self {
        self.tls = Some(config.into());
        self
    }

    /// Every connection begins with a PROXY header of a trusted proxy, as for
    /// [`Listener::proxy_protocol`](crate::net::Listener::proxy_protocol).
    pub fn proxy_protocol(mut self, proxies: ProxyProtocol) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// Calls this with the address from the moment on at which clients are served.
    pub fn on_listening(mut self, tell: impl FnOnce(&str) + Send + 'static) -> Self {
        self.on_listening = Some(Box::new(tell));
        self
    }

    /// Writes the report as JSON to this file, mode 0600.
    pub fn report_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.report_file = Some(path.into());
        self
    }

    /// When to print the report to standard error.
    pub const fn print(mut self, print: PrintReport) -> Self {
        self.settings.print = print;
        self
    }

    /// Hears every notice when it happens. It must not wait.
    pub fn on_notice(mut self, listener: impl FnMut(&Notice) + Send + 'static) -> Self {
        self.settings.listen(listener);
        self
    }

    /// The address of the listener; `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.local_addr()
    }

    /// Dropped half-way, the stop begins, and goes on in the background.
    async fn run(self) -> Result<Drained, Error> {
        // Before anything is begun: an error, and not a report that it failed.
        self.listener.check(PART)?;
        let counts = Arc::new(DrainCounts::default());
        let counted = Arc::clone(&counts);
        let (listener, served, limits) = (self.listener, self.service, self.limits);
        let (place, on_listening, proxies) = (self.place, self.on_listening, self.proxies);
        #[cfg(feature = "tls-no-provider")]
        let tls = self.tls;
        let setup = async move |app: &mut App| -> crate::Result {
            let mut listener = Listener::adopt(&app.registrar.core, PART.into(), listener, place)?;
            #[cfg(feature = "tls-no-provider")]
            if let Some(config) = tls {
                listener.speak_tls(config)?;
            }
            if let Some(proxies) = proxies {
                listener = listener.proxy_protocol(proxies);
            }
            if let Some(tell) = on_listening {
                listener = listener.on_listening(tell);
            }
            drop(
                HttpBuilder::prepared(&mut app.registrar, listener, served)
                    .limits(limits)
                    .counting(counted),
            );
            Ok(())
        };
        let report = match self.trigger {
            Some(trigger) => {
                let mut scope = scope("");
                scope.settings = self.settings;
                // There is a report in what is given back.
                scope.settings.print = PrintReport::Never;
                scope.trigger = Some(trigger);
                scope.begin()?.run(setup).await
            }
            None => {
                let mut service = service("");
                service.settings = self.settings;
                let (report, listening) =
                    service.begin_in_place(AfterEnd::GoesOn)?.run(setup).await;
                // The caller finds the signals as they were before.
                drop(listening);
                report
            }
        };
        Drained::of(report, &counts)
    }
}

impl IntoFuture for Serve {
    type Output = Result<Drained, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

/// How the stop of a server went. Returned from `main`, it is the exit code: 0 if nothing was cut, else 3.
///
/// ```no_run
/// # use axum::Router;
/// #[tokio::main]
/// async fn main() -> Result<adieu::Drained, adieu::Error> {
///     # let (listener, router) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Router::new());
///     adieu::serve(listener, router).await
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Drained {
    /// Requests that were answered whole from the beginning of the stop on.
    pub answered: u64,
    /// Connections that were closed from the beginning of the stop on.
    pub closed: u64,
    /// Requests and connections that were cut, by name.
    pub cut: Vec<LostWork>,
    /// The whole report.
    pub report: Report,
}

impl Drained {
    fn of(report: Report, counts: &DrainCounts) -> Result<Self, Error> {
        if matches!(report.exit(), Exit::Failed | Exit::Usage) {
            let parts = report.parts().iter();
            let failure = (report.problem())
                .or_else(|| parts.filter_map(|part| part.failure.as_ref()).next())
                .cloned();
            return Err(Error::new(ErrorKind::Served { failure }));
        }
        let (answered, closed) = counts.totals();
        let cut = report.lost().iter();
        let cut = cut.filter(|loss| loss.outcome != Outcome::Failed);
        Ok(Self {
            answered,
            closed,
            cut: cut.cloned().collect(),
            report,
        })
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = duration::show(self.report.took());
        let Self {
            answered, closed, ..
        } = self;
        write!(
            f,
            "drained in {took}: {answered} requests answered, {closed} connections closed, "
        )?;
        if self.cut.is_empty() {
            return f.write_str("nothing cut");
        }
        f.write_str("cut: ")?;
        for (index, loss) in self.cut.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}", loss.name)?;
            if loss.count > 1 {
                write!(f, " ({} times)", loss.count)?;
            }
        }
        Ok(())
    }
}

impl Termination for Drained {
    fn report(self) -> ExitCode {
        self.report.into()
    }
}
