//! The routes of the admin port, as a tower service.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tower_service::Service;

use super::health::{Readiness, View};
use super::hosts::{self, Hosts};
use super::metrics::{self, Others};
use super::openmetrics;
use super::probe::{ProbeRequest, is_probe};
use crate::component::BoxFuture;
use crate::error::Error;
use crate::report::{ReportBuilder, pretty};
use crate::runtime::shared::ServiceShared;

/// The routes of the admin port for a router of your own: a tower service for any kind of request body.
///
/// For those who have one port. Made by [`App::admin_routes`](crate::App::admin_routes). Mounted in a server of
/// the service they end with it, while the admin port answers to the very end.
///
/// ```
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// use axum::{Router, routing::get};
///
/// let probes = app.admin_routes().probes_only();
/// let router: Router = Router::new()
///     .route("/orders", get(async || "none"))
///     .route_service("/livez", probes.clone())
///     .route_service("/readyz", probes)
///     .nest_service("/internal", app.admin_routes()); // everything, behind whatever guards this prefix
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AdminRoutes {
    view: View,
    probes_only: bool,
    others: Option<Others>,
    /// The names of the port; a router of the user's own has its own rules.
    hosts: Option<Arc<Hosts>>,
}

impl AdminRoutes {
    pub(crate) fn new(core: Arc<ServiceShared>, ledger: Arc<Mutex<ReportBuilder>>) -> Self {
        Self {
            view: View { core, ledger },
            probes_only: false,
            others: None,
            hosts: None,
        }
    }

    /// Only `/livez` and `/readyz`, which tell strangers no more than names.
    #[must_use = "it gives back the routes"]
    pub const fn probes_only(mut self) -> Self {
        self.probes_only = true;
        self
    }

    /// Collects the program's own metrics, those of the [`metrics`](https://docs.rs/metrics) facade, and gives them on
    /// `/metrics`. It installs the recorder of the process, of which there is one.
    ///
    /// # Errors
    /// The program has installed a recorder: its text can be added with [`metrics_from`](Self::metrics_from).
    pub fn collect_metrics(self) -> Result<Self, Error> {
        match metrics::install() {
            true => Ok(self),
            false => Err(Error::config(
                "the metrics of the program are collected by a recorder that it has installed itself: leave \
                 `collect_metrics` out, and add its text with `.metrics_from(move || handle.render())`"
                    .to_owned(),
            )),
        }
    }

    /// More Prometheus text for `/metrics`: for a program that has a recorder of its own.
    #[must_use = "it gives back the routes"]
    pub fn metrics_from(mut self, text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.others = Some(Arc::new(text));
        self
    }

    /// Answers to these names only.
    pub(super) fn at(mut self, hosts: Hosts) -> Self {
        self.hosts = Some(Arc::new(hosts));
        self
    }

    /// Dropped half-way, running checks are cancelled.
    async fn answer(self, ask: Ask) -> Response<AdminBody> {
        let path = ask.path.as_str();
        if let Some(name) = ask.for_another.as_ref().filter(|_| !is_probe(path)) {
            let reply = Reply::text(StatusCode::MISDIRECTED_REQUEST, hosts::advice(name));
            return reply.response(true);
        }
        let known = is_probe(path) || (!self.probes_only && DETAILS.contains(&path));
        let mut response = match ask.method {
            _ if !known => Reply::text(StatusCode::NOT_FOUND, "not found\n").response(true),
            Method::GET => self.reply(&ask).await.response(true),
            Method::HEAD => self.reply(&ask).await.response(false),
            _ => Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n").response(true),
        };
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
        }
        response
    }

    async fn reply(&self, ask: &Ask) -> Reply {
        let view = &self.view;
        match ask.path.as_str() {
            "/livez" if ask.probe.is_verbose => {
                Reply::text(StatusCode::OK, "[+]ping ok\nlivez check passed\n")
            }
            "/livez" => Reply::text(StatusCode::OK, "alive\n"),
            path if is_probe(path) => {
                let readiness = view.readiness_of(|check| ask.probe.wants(check)).await;
                if ask.probe.names_no_check(&readiness) {
                    return Reply::text(StatusCode::NOT_FOUND, "there is no check of this name\n");
                }
                if ask.probe.is_verbose {
                    return Reply::text(status(&readiness), ask.probe.lines(&readiness));
                }
                let reasons: Vec<_> = readiness.unready.iter().map(ToString::to_string).collect();
                let text = if reasons.is_empty() {
                    "ready\n".to_owned()
                } else {
                    format!("not ready: {}\n", reasons.join(", "))
                };
                Reply::text(status(&readiness), text)
            }
            "/health" => {
                let readiness = view.readiness().await;
                Reply::json(status(&readiness), &view.health(&readiness))
            }
            "/metrics" => {
                let others = self.others.as_ref().map(|text| text());
                let text = metrics::render(view, others.as_deref());
                if ask.wants_openmetrics {
                    let text = openmetrics::from_prometheus(&text);
                    return Reply::new(StatusCode::OK, openmetrics::CONTENT_TYPE, text);
                }
                Reply::new(StatusCode::OK, "text/plain; version=0.0.4", text)
            }
            #[cfg(feature = "schedule")]
            "/schedules" => Reply::json(StatusCode::OK, &super::schedules::list(&view.core)),
            "/plan" if ask.wants_json => Reply::json(StatusCode::OK, &view.plan()),
            "/plan" => Reply::text(StatusCode::OK, view.core.plan().to_string()),
            _ => Reply::json(StatusCode::OK, &view.report()),
        }
    }
}

/// Not for strangers, who may ask the probes alone.
const DETAILS: &[&str] = &[
    "/health",
    "/metrics",
    "/plan",
    "/report",
    #[cfg(feature = "schedule")]
    "/schedules",
];

fn status(readiness: &Readiness) -> StatusCode {
    if readiness.unready.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

impl fmt::Debug for AdminRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminRoutes")
            .field("service", &self.view.core.name)
            .field("probes_only", &self.probes_only)
            .finish_non_exhaustive()
    }
}

/// What matters of a request.
struct Ask {
    method: Method,
    path: String,
    probe: ProbeRequest,
    wants_json: bool,
    wants_openmetrics: bool,
    /// The host it is for, if that is not this one.
    for_another: Option<String>,
}

impl Ask {
    fn of<B>(request: &Request<B>, hosts: Option<&Hosts>) -> Self {
        let accept = request.headers().get_all(ACCEPT);
        let accepts = |kind: &str| {
            let mut values = accept.iter().filter_map(|accept| accept.to_str().ok());
            values.any(|accept| accept.contains(kind))
        };
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            probe: ProbeRequest::new(request.uri().path(), request.uri().query()),
            wants_json: accepts("application/json"),
            wants_openmetrics: accepts("application/openmetrics-text"),
            for_another: hosts.and_then(|hosts| hosts.refused(request)),
        }
    }
}

impl<B> Service<Request<B>> for AdminRoutes {
    type Response = Response<AdminBody>;
    type Error = Infallible;
    type Future = AdminFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> AdminFuture {
        let ask = Ask::of(&request, self.hosts.as_deref());
        let answer = self.clone().answer(ask);
        AdminFuture(Box::pin(answer))
    }
}

/// An answer in the making.
pub struct AdminFuture(BoxFuture<Response<AdminBody>>);

impl Future for AdminFuture {
    type Output = Result<Response<AdminBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for AdminFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminFuture").finish_non_exhaustive()
    }
}

struct Reply {
    status: StatusCode,
    kind: &'static str,
    text: String,
}

impl Reply {
    fn new(status: StatusCode, kind: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, kind, text }
    }

    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text)
    }

    fn json(status: StatusCode, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", pretty(value))
    }

    fn response(self, with_body: bool) -> Response<AdminBody> {
        let length = self.text.len();
        let body = with_body.then(|| Bytes::from(self.text));
        let mut response = Response::new(AdminBody(body.filter(|body| !body.is_empty())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        // An old answer about health is a wrong one.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// The body of an answer: one piece.
#[derive(Debug)]
pub struct AdminBody(Option<Bytes>);

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
