//! A drain that lasts the same time whatever is in flight, as `HttpServer.stop(5)` of Java does.
//!
//! From outside it looks like something that comes before the drain: also an idle stop takes all of it. Requests that
//! are held until it is over are cut, which is allowed for a drain with a limit. Shorter ones must be answered.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use crate::capabilities::Capabilities;
use crate::drill::Drill;
use crate::error::DrillError;
use crate::in_flight::InFlight;
use crate::process::LaunchMode;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::running;
use crate::stop_log::{LoadKind, StopLog};
use crate::threshold::show;

/// A drain that lasts so long whatever is in flight.
#[derive(Clone, Debug)]
pub(crate) struct FixedDrain {
    /// How long a request was to take, and how long after the signal it was cut.
    long: Duration,
    cut: Duration,
    idle: Duration,
    /// How long held requests take instead.
    pub(crate) hold: Duration,
}

impl fmt::Display for FixedDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a request of {} was cut {} after the signal, and an idle stop takes {}: its drain lasts the same time whatever \
             is in flight, so requests of {} were held",
            show(self.long),
            show(self.cut),
            show(self.idle),
            show(self.hold)
        )
    }
}

/// An idle stop that is shorter leaves no room for a request that is shorter still.
const SHORTEST_IDLE_STOP: Duration = Duration::from_millis(1_000);
/// How much longer than an idle stop the request takes.
const REQUEST_AFTER_IDLE_STOP: Duration = Duration::from_millis(700);

/// Whether the program has such a drain: one more stop, with a request that takes longer than an idle stop.
pub(crate) async fn look(
    drill: &Drill,
    scratch: &Path,
    found: &Capabilities,
    record: &mut StopLog,
) -> Result<Option<FixedDrain>, DrillError> {
    let (Some(idle), Some(path)) = (found.idle_stop, &found.slow) else {
        return Ok(None);
    };
    if idle < SHORTEST_IDLE_STOP || !path.contains("{ms}") {
        return Ok(None);
    }
    let run = running::start(drill, scratch, &LaunchMode::Plain).await?;
    let long = idle + REQUEST_AFTER_IDLE_STOP;
    let path = run.process.placeholders.fill(path);
    let path = path.replace("{ms}", &long.as_millis().to_string());
    let endpoint = run.endpoint.at(&path).map_err(DrillError::Usage)?;
    let Ok(in_flight) = InFlight::begin(&endpoint, &endpoint.request()).await else {
        return Ok(None);
    };
    run.one_arrives(in_flight.sent).await;
    let signal = run.stop();
    let finishing = tokio::spawn(in_flight.finish(long + ANSWER_TIMEOUT));
    // A program that still takes new connections in the middle of it is not draining yet.
    sleep(idle / 2).await;
    let drains = matches!(
        tokio::time::timeout(ANSWER_TIMEOUT, RawConn::open(&run.endpoint.plain())).await,
        Ok(Err(WireError::Refused))
    ) && run.process.ended().is_none();
    let finished = finishing.await.ok();
    let left = drill.grace.saturating_sub(signal.elapsed());
    if let Some(ended) = run.process.ended_within(left.min(ANSWER_TIMEOUT)).await {
        let took = ended.at.saturating_duration_since(signal);
        record.exit("", LoadKind::Hold, Some((took, ended.status)));
    }
    run.process.kill().await;
    let Some(finished) = finished.filter(|finished| finished.result.is_err()) else {
        return Ok(None);
    };
    let cut = finished.ended.saturating_duration_since(signal);
    let as_long_as_idle = cut >= idle.mul_f64(0.8) && cut < long;
    Ok((drains && as_long_as_idle).then(|| FixedDrain {
        long,
        cut,
        idle,
        hold: idle / 2,
    }))
}
