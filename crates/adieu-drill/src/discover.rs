//! The first run: what the program offers, and how long it takes to stop when nobody wants anything.

use std::io;
use std::time::{Duration, Instant};

use adieu_load::Request;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use crate::drill::Drill;
use crate::place::Place;
use crate::process::{Blanks, Ended};
use crate::stage::{PATIENCE, Run};
use crate::wire::{Frame, H2, WebSocket, Wire};

/// What the program offers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) speaks: Speaks,
    /// Answers late, with `{ms}` in it.
    pub(crate) slow: Option<String>,
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
    /// From the signal to the end, with nobody connected; nothing if it did not end.
    pub(crate) idle_stop: Option<Duration>,
    pub(crate) idle_end: Option<Ended>,
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
/// How long a path that answers late is asked to take, to see whether it does.
const LATE: Duration = Duration::from_millis(400);
/// A path that shows nothing within this time has nothing to show.
const GLANCE: Duration = Duration::from_secs(3);

/// Looks at a running program.
pub(crate) async fn look(drill: &Drill, run: &Run) -> Found {
    let mut found = Found::default();
    if drill.address.is_none() {
        return found;
    }
    if !run.place.is_http() {
        if echoes(run).await {
            found.speaks = Speaks::Echo;
        }
        return found;
    }
    found.speaks = Speaks::Http;
    let given = &drill.paths;
    // A server that answers anything with 200 tells nothing by answering.
    let nonsense = answers(run, "/adieu-drill-looks-for-nothing").await;
    let looker = Looker {
        run,
        blanks: &run.subject.blanks,
        everything: nonsense,
    };
    let (slow, stream, large, sse, ws, upload, readiness, liveness, h2, keeps_alive) = tokio::join!(
        looker.first(
            &given.slow,
            &["/slow?ms={ms}", "/sleep?ms={ms}", "/delay?ms={ms}"],
            Kind::Slow
        ),
        looker.first(&given.stream, &["/stream"], Kind::Stream),
        looker.first(&given.large, &["/large", "/big"], Kind::Large),
        looker.first(&given.sse, &["/sse", "/events"], Kind::Sse),
        looker.first(&given.ws, &["/ws", "/websocket"], Kind::WebSocket),
        looker.first(&given.upload, &["/upload"], Kind::Upload),
        looker.first(
            &given.readiness,
            &["/readyz", "/ready", "/health/ready"],
            Kind::Probe
        ),
        looker.first(
            &given.liveness,
            &["/livez", "/healthz", "/live", "/health/live"],
            Kind::Probe
        ),
        speaks_h2(&run.place),
        keeps_alive(run),
    );
    Found {
        slow,
        large: large.or_else(|| stream.clone()),
        stream,
        sse,
        ws,
        upload,
        readiness,
        liveness,
        h2,
        keeps_alive,
        ..found
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Slow,
    Stream,
    Large,
    Sse,
    WebSocket,
    Upload,
    Probe,
}

struct Looker<'a> {
    run: &'a Run,
    blanks: &'a Blanks,
    everything: bool,
}

impl Looker<'_> {
    /// What was given, believed; or the first conventional path that shows what it should.
    async fn first(&self, given: &Option<String>, usual: &[&str], kind: Kind) -> Option<String> {
        if given.is_some() {
            return given.clone();
        }
        for path in usual {
            let shows = timeout(PATIENCE, self.shows(path, kind)).await;
            if matches!(shows, Ok(Some(true))) {
                return Some((*path).to_owned());
            }
        }
        None
    }

    async fn shows(&self, path: &str, kind: Kind) -> Option<bool> {
        let place = |path: &str| self.run.place.at(&self.blanks.fill(path)).ok();
        Some(match kind {
            Kind::Slow => {
                let late = LATE.as_millis().to_string();
                let (at_once, late) = (
                    place(&path.replace("{ms}", "0"))?,
                    place(&path.replace("{ms}", &late))?,
                );
                takes(&late).await? >= LATE && takes(&at_once).await? < LATE / 2
            }
            Kind::Stream => takes(&place(path)?).await? >= LATE / 4,
            Kind::Large => {
                let place = place(path)?;
                let answer = Wire::ask_within(&place, &place.request(), PATIENCE)
                    .await
                    .ok()?;
                answer.head.status == 200 && answer.body.length > LARGE
            }
            Kind::Sse => {
                let place = place(path)?;
                let mut wire = Wire::open(&place.target()).await.ok()?;
                wire.send(&place.request().bytes(true)).await.ok()?;
                let (head, text) = timeout(GLANCE, wire.head()).await.ok()?.ok()?;
                head.status == 200 && text.to_ascii_lowercase().contains("text/event-stream")
            }
            Kind::WebSocket => timeout(GLANCE, WebSocket::open(&place(path)?))
                .await
                .ok()?
                .is_ok(),
            Kind::Upload => {
                let place = place(path)?;
                let request = upload(&place.request(), b"adieu".to_vec());
                let answer = Wire::ask_within(&place, &request, GLANCE).await.ok()?;
                !self.everything && (200..300).contains(&answer.head.status)
            }
            Kind::Probe => !self.everything && answers(self.run, path).await,
        })
    }
}

/// A request that brings this body.
pub(crate) fn upload(request: &Request, body: Vec<u8>) -> Request {
    Request {
        method: "POST".to_owned(),
        body,
        ..request.clone()
    }
}

async fn answers(run: &Run, path: &str) -> bool {
    let Ok(place) = run.place.at(path) else {
        return false;
    };
    let asked = Wire::ask_within(&place, &place.request(), GLANCE).await;
    matches!(asked, Ok(answer) if (200..300).contains(&answer.head.status))
}

/// Whether the server means to read another request from a connection. One that does not answer may.
async fn keeps_alive(run: &Run) -> bool {
    let talk = async {
        let mut wire = run.wire().await.ok()?;
        wire.send(&run.place.request().bytes(false)).await.ok()?;
        Some(wire.answer_within(GLANCE).await.ok()?.head.keep_alive)
    };
    talk.await.unwrap_or(true)
}

/// How long a good answer takes.
async fn takes(place: &Place) -> Option<Duration> {
    let before = Instant::now();
    let answer = Wire::ask_within(place, &place.request(), PATIENCE)
        .await
        .ok()?;
    (answer.head.status < 300).then(|| before.elapsed())
}

async fn speaks_h2(place: &Place) -> bool {
    let talk = async {
        let mut h2 = H2::open(&place.plain()).await.ok()?;
        let stream = h2.request(&place.request(), place.tls).await.ok()?;
        loop {
            let frame = h2.next().await.ok()?;
            if frame.kind == Frame::HEADERS && frame.stream == stream {
                return Some(());
            }
        }
    };
    matches!(timeout(GLANCE, talk).await, Ok(Some(())))
}

/// Whether a line comes back in a line.
async fn echoes(run: &Run) -> bool {
    matches!(timeout(GLANCE, echo(&run.place)).await, Ok(Ok(true)))
}

/// Sends a line, and says whether the one that comes has it inside.
pub(crate) async fn echo(place: &Place) -> io::Result<bool> {
    let mut connection = BufReader::new(place.plain().connect().await?);
    connection.write_all(b"line 0\r\n").await?;
    connection.flush().await?;
    let mut line = String::new();
    match connection.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.contains("line 0")),
    }
}

/// Stops the program with nobody connected.
pub(crate) async fn idle_stop(drill: &Drill, run: &Run, found: &mut Found) {
    // The server sees the last of our connections end.
    sleep(Duration::from_millis(100)).await;
    let signal = run.stop();
    found.idle_end = run.subject.ended_within(drill.grace).await;
    found.idle_stop = found
        .idle_end
        .map(|ended| ended.at.saturating_duration_since(signal));
}
