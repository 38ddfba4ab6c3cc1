//! The schedules as JSON: what runs next, what ran last, how it went.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::runtime::shared::ServiceShared;

/// So many are listed, the next ones first; all are counted.
const MAX_LISTED: usize = 1_000;

pub(super) fn list(core: &ServiceShared) -> Value {
    let (count, entries) = core.schedules().statuses(MAX_LISTED);
    let schedules: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            json!({
                "name": &*entry.name,
                "next": entry.next.and_then(written),
                "next_ms": entry.next.and_then(millis),
                "last": entry.last.and_then(written),
                "last_ms": entry.last.and_then(millis),
                "running": entry.running,
                "runs": entry.runs,
                "failed": entry.failed,
                "skipped": entry.skipped,
            })
        })
        .collect();
    json!({"service": &*core.name, "count": count, "schedules": schedules})
}

/// As RFC 3339 has it, in UTC.
fn written(time: SystemTime) -> Option<String> {
    let time = jiff::Timestamp::try_from(time).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.fZ").to_string())
}

/// Milliseconds since 1970.
fn millis(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
