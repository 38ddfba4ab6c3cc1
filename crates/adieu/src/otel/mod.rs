//! The stop as a trace, sent to an OpenTelemetry collector at its end.

mod encode;
mod send;

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use adieu_lifecycle::Exit;
use http::Uri;

use crate::component::HookBuilder;
use crate::error::Error;
use crate::report::{ComponentKind, ReportBuilder};
use crate::runtime::registrar::Registrar;
use crate::runtime::shared::ServiceShared;

/// The longest the export may take. A collector on the same host or in the same cluster answers in milliseconds.
const EXPORT_LIMIT: Duration = Duration::from_secs(2);
/// The name of its hook.
const NAME: &str = "otlp";

/// Registers the export as the hook that it is: it runs in the save phase, when everything is closed.
pub(crate) fn register(
    app: &mut Registrar,
    endpoint: &str,
    place: &'static Location<'static>,
) -> Result<(), Error> {
    let endpoint = parse(endpoint)?;
    let (core, ledger) = (Arc::clone(&app.core), Arc::clone(&app.ledger));
    let export = move || async move { export(&core, &ledger, &endpoint).await };
    drop(HookBuilder::new(
        app,
        ComponentKind::ExitHook,
        NAME.into(),
        place,
        export,
    ));
    Ok(())
}

/// The address of the collector, with the path for traces if it has none.
fn parse(endpoint: &str) -> Result<Uri, Error> {
    let advice = |why: &str| {
        Error::config(format!(
            "invalid address of a collector `{endpoint}`: {why}; it is something like http://127.0.0.1:4318, where OTLP over HTTP \
             is accepted"
        ))
    };
    let uri: Uri = endpoint
        .parse()
        .map_err(|error: http::uri::InvalidUri| advice(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(advice(
                "TLS is left to a collector on this host or in this pod",
            ));
        }
        _ => return Err(advice("it does not begin with http://")),
    }
    if !matches!(uri.path(), "" | "/") {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/v1/traces"));
    Uri::from_parts(parts).map_err(|error| advice(&error.to_string()))
}

/// Sends what is known of the stop, as far as it has come. Whatever happens, the stop has not failed for it.
///
/// Dropped half-way, the collector may have it or not.
async fn export(core: &ServiceShared, ledger: &Mutex<ReportBuilder>, endpoint: &Uri) {
    let now = core.now();
    let (report, left) = {
        let snapshot = core.snapshot(now);
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ledger.until_end(now).unwrap_or(EXPORT_LIMIT);
        (ledger.report(snapshot, now, Exit::Clean), left)
    };
    let trace = encode::trace(&report, SystemTime::now());
    // Hooks that come after it have their time, too.
    let bound = EXPORT_LIMIT.min(left / 4);
    let sent = match tokio::time::timeout(bound, send::post(endpoint, trace)).await {
        Ok(sent) => sent,
        Err(_) => Err(format!("no answer within {}", crate::util::duration::show(bound)).into()),
    };
    let Err(error) = sent else { return };
    let note = format!("not exported to {endpoint}: {error}");
    let mut parts = core.parts();
    if let Some(part) = parts.iter_mut().find(|part| &*part.name == NAME) {
        part.notes.push(note.clone());
    }
    drop(parts);
    core.log_deferred(move || tracing::warn!(target: "adieu", "the stop was {note}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_where_there_is_none() {
        let path = |endpoint| parse(endpoint).expect("an address").to_string();
        assert_eq!(path("http://[::1]:4318"), "http://[::1]:4318/v1/traces");
        assert_eq!(path("http://otel:4318/"), "http://otel:4318/v1/traces");
        assert_eq!(path("http://otel/in/v1/traces"), "http://otel/in/v1/traces");
    }

    #[test]
    fn what_cannot_be_sent_to_is_told_with_advice() {
        for (endpoint, why) in [
            ("https://otel:4318", "TLS is left to"),
            ("127.0.0.1:4318", "does not begin with http://"),
            ("http://", "invalid address"),
            ("a collector", "invalid address"),
        ] {
            let error = parse(endpoint).expect_err(endpoint);
            assert!(error.is_misuse());
            let text = error.to_string();
            assert!(text.contains(why), "{text}");
            assert!(text.contains("http://127.0.0.1:4318"), "{text}");
        }
    }
}
