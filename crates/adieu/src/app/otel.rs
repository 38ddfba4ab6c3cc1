//! The export of the stop, as `setup` asks for it.

use std::panic::Location;

use crate::app::App;
use crate::otel;

impl App {
    /// Sends the stop as a trace to an OpenTelemetry collector: OTLP over HTTP, encoded as JSON. Feature `otel`.
    ///
    /// A span for the stop, one for each phase, and one for each component, with an event `adieu.part.stop`: its name, kind,
    /// phase, outcome and duration, and `error.type` if it did not end with success.
    ///
    /// It is a hook of the save phase named `otlp`. Say it last: what ends after it is not in the trace. It takes at most two
    /// seconds and a quarter of what is left of the grace period. If the collector does not take it, log and report say why,
    /// and the exit code stays what it was.
    ///
    /// The address begins with `http://`. TLS, authentication and retries are the work of a collector on this host or in this
    /// pod. Without a path, `/v1/traces` is added.
    ///
    /// ```
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.task("importer", |stop| async move { stop.requested().await });
    /// app.export_stop("http://127.0.0.1:4318");
    /// # Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let report = adieu::scope("t").stop_when(async {}).run(setup).await;
    /// # assert_eq!(report.exit_code(), 0, "{report}");
    /// # }
    /// ```
    #[track_caller]
    pub fn export_stop(&mut self, endpoint: &str) {
        let place = Location::caller();
        if let Err(error) = otel::register(&mut self.registrar, endpoint, place) {
            self.registrar.misuse(error);
        }
    }
}
