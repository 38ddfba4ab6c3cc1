//! The first run: what the program offers, and how long it takes to stop without load.

pub(crate) mod fixed_drain;
mod prober;

use std::io;
use std::time::Duration;

use adieu_load::Request;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use self::fixed_drain::FixedDrain;
use self::prober::{Kind, Prober};
use crate::drill::Drill;
use crate::endpoint::Endpoint;
use crate::error::DrillError;
use crate::process::Ended;
use crate::raw::{Frame, H2, RawConn};
use crate::running::RunningTarget;

/// What the program offers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) speaks: Speaks,
    /// Answers late, with `{ms}` in it.
    pub(crate) slow: Option<String>,
    /// How many slow requests it works on at once, of those that were tried; nothing if the kernel does not tell.
    pub(crate) at_once: Option<usize>,
    pub(crate) stream: Option<String>,
    pub(crate) large: Option<String>,
    pub(crate) sse: Option<String>,
    pub(crate) ws: Option<String>,
    pub(crate) upload: Option<String>,
    pub(crate) readiness: Option<String>,
    pub(crate) liveness: Option<String>,
    pub(crate) h2: bool,
    /// Whether a connection outlives its answer.
    pub(crate) keeps_alive: bool,
    /// From the signal to the end, without a client; nothing if it did not end.
    pub(crate) idle_stop: Option<Duration>,
    pub(crate) idle_end: Option<Ended>,
    /// If it gives up what is in flight after a time that does not depend on it.
    pub(crate) fixed_drain: Option<FixedDrain>,
}

/// What kind of traffic can be put on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    /// Lines that come back.
    Echo,
    /// Something of its own.
    #[default]
    Other,
}

/// More than the buffers of a connection take when its reader has a small window.
pub(crate) const LARGE: u64 = 1 << 20;
/// A path that shows nothing within this time has nothing to show.
pub(crate) const CAPABILITY_TIMEOUT: Duration = Duration::from_secs(3);

/// Looks at a running program.
///
/// # Errors
///
/// If a path that was given does not show what it was given for.
pub(crate) async fn look(drill: &Drill, run: &RunningTarget) -> Result<Capabilities, DrillError> {
    let mut found = Capabilities::default();
    if drill.address.is_none() {
        return Ok(found);
    }
    if !run.endpoint.is_http() {
        if echoes(run).await {
            found.speaks = Speaks::Echo;
        }
        return Ok(found);
    }
    found.speaks = Speaks::Http;
    look_at_paths(drill, run, found)
        .await
        .map_err(DrillError::Usage)
}

async fn look_at_paths(
    drill: &Drill,
    run: &RunningTarget,
    found: Capabilities,
) -> Result<Capabilities, String> {
    let given = &drill.paths;
    prober::main_path(run).await?;
    // A server that answers anything with 200 tells nothing by answering.
    let everything = answers(run, "/adieu-drill-looks-for-nothing").await;
    let prober = Prober { run, everything };
    // By itself: it is about how many requests are worked on at once, and others would be in the way.
    let slow = prober.slow(given.slow.as_deref()).await?;
    let (stream, large, sse, ws, upload, readiness, liveness, h2, keeps_alive) = tokio::join!(
        prober.first(&given.stream, &["/stream"], Kind::Stream),
        prober.first(&given.large, &["/large", "/big"], Kind::Large),
        prober.first(&given.sse, &["/sse", "/events"], Kind::Sse),
        prober.first(&given.ws, &["/ws", "/websocket"], Kind::WebSocket),
        prober.first(&given.upload, &["/upload"], Kind::Upload),
        prober.first(
            &given.readiness,
            &["/readyz", "/ready", "/health/ready"],
            Kind::Readiness
        ),
        prober.first(
            &given.liveness,
            &["/livez", "/healthz", "/live", "/health/live"],
            Kind::Liveness
        ),
        speaks_h2(&run.endpoint),
        keeps_alive(run),
    );
    let (large, stream) = (large?, stream?);
    Ok(Capabilities {
        slow: slow.as_ref().map(|slow| slow.path.clone()),
        at_once: slow.and_then(|slow| slow.at_once),
        large: large.or_else(|| stream.clone()),
        stream,
        sse: sse?,
        ws: ws?,
        upload: upload?,
        readiness: readiness?,
        liveness: liveness?,
        h2,
        keeps_alive,
        ..found
    })
}

/// A request that brings this body.
pub(crate) fn upload(request: &Request, body: Vec<u8>) -> Request {
    Request {
        method: "POST".to_owned(),
        body,
        ..request.clone()
    }
}

pub(crate) async fn answers(run: &RunningTarget, path: &str) -> bool {
    let Ok(endpoint) = run.endpoint.at(path) else {
        return false;
    };
    let asked = RawConn::ask_within(&endpoint, &endpoint.request(), CAPABILITY_TIMEOUT).await;
    matches!(asked, Ok(answer) if (200..300).contains(&answer.head.status))
}

/// Whether the server means to read another request from a connection. One that does not answer may.
async fn keeps_alive(run: &RunningTarget) -> bool {
    let talk = async {
        let mut conn = run.connect().await.ok()?;
        conn.send(&run.endpoint.request().bytes(false)).await.ok()?;
        Some(
            conn.answer_within(CAPABILITY_TIMEOUT)
                .await
                .ok()?
                .head
                .keep_alive,
        )
    };
    talk.await.unwrap_or(true)
}

async fn speaks_h2(endpoint: &Endpoint) -> bool {
    let talk = async {
        let mut h2 = H2::open(&endpoint.plain()).await.ok()?;
        let stream = h2.request(&endpoint.request(), endpoint.tls).await.ok()?;
        loop {
            let frame = h2.next().await.ok()?;
            if frame.kind == Frame::HEADERS && frame.stream == stream {
                return Some(());
            }
        }
    };
    matches!(timeout(CAPABILITY_TIMEOUT, talk).await, Ok(Some(())))
}

/// Whether a line comes back in a line.
async fn echoes(run: &RunningTarget) -> bool {
    matches!(
        timeout(CAPABILITY_TIMEOUT, echo(&run.endpoint)).await,
        Ok(Ok(true))
    )
}

/// Sends a line, and says whether the one that comes has it inside.
pub(crate) async fn echo(endpoint: &Endpoint) -> io::Result<bool> {
    let mut connection = BufReader::new(endpoint.plain().connect().await?);
    connection.write_all(b"line 0\r\n").await?;
    connection.flush().await?;
    let mut line = String::new();
    match connection.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.contains("line 0")),
    }
}

/// Stops the program without a client connected.
pub(crate) async fn idle_stop(drill: &Drill, run: &RunningTarget, found: &mut Capabilities) {
    // The server sees the last of our connections end.
    sleep(Duration::from_millis(100)).await;
    let signal = run.stop();
    found.idle_end = run.process.ended_within(drill.grace).await;
    found.idle_stop = found
        .idle_end
        .map(|ended| ended.at.saturating_duration_since(signal));
}
