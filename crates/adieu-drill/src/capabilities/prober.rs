//! Whether a path shows what it is asked for, before any stop.
//!
//! A conventional path that does not is not used. One that was given with an option is a mistake, which is said before
//! the first stop: a check that is skipped for it would look like a program without that kind of answer.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::arrival::Arrival;
use crate::capabilities::{CAPABILITY_TIMEOUT, LARGE, answers, upload};
use crate::endpoint::{Endpoint, label};
use crate::in_flight::InFlight;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WebSocket, field};
use crate::running::RunningTarget;
use crate::threshold::show;

/// How long a path that answers late is asked to take, to see whether it does.
const SLOW_ANSWER: Duration = Duration::from_millis(400);
/// So many are asked for at once, to see on how many of them the program works.
const TOGETHER: usize = 4;
/// If the program has read nothing more for so long, it works on no more of them. Shorter than each of them takes.
const READS_NO_MORE_AFTER: Duration = Duration::from_millis(250);
/// How often a probe is asked that does not say yes yet.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Looks for one kind of answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Stream,
    Large,
    Sse,
    WebSocket,
    Upload,
    Readiness,
    Liveness,
}

impl Kind {
    /// The option that gives the path, and what kind of path to give.
    const fn option(self) -> (&'static str, &'static str) {
        match self {
            Self::Stream => (
                "--stream",
                "give a path whose answer comes in pieces over a second or so",
            ),
            Self::Large => ("--large", "give a path with more than 1048576 bytes"),
            Self::Sse => ("--sse", "give a path that answers with text/event-stream"),
            Self::WebSocket => ("--ws", "give a path that becomes a WebSocket"),
            Self::Upload => ("--upload", "give a path that takes a body with POST"),
            Self::Readiness => (
                "--readiness",
                "give the path, or the whole URL, that answers 2xx while it is ready",
            ),
            Self::Liveness => (
                "--liveness",
                "give the path, or the whole URL, that answers 2xx while it lives",
            ),
        }
    }
}

/// A path that answers late.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) path: String,
    /// On how many of them the program worked at once; nothing if the kernel does not tell.
    pub(crate) at_once: Option<usize>,
}

pub(crate) struct Prober<'a> {
    pub(crate) run: &'a RunningTarget,
    /// It answers every path with 200.
    pub(crate) everything: bool,
}

/// Whether the path that the load asks for answers. The root may answer 404, as that of an API does: an answer is an
/// answer. Any other path was given for what it says.
pub(crate) async fn main_path(run: &RunningTarget) -> Result<(), String> {
    let request = run.endpoint.request();
    if request.path == "/" {
        return Ok(());
    }
    match RawConn::ask_within(&run.endpoint, &request, ANSWER_TIMEOUT).await {
        Ok(answer) if answer.head.status >= 400 => Err(format!(
            "--http: {} answers {}, so a load on it would show nothing; give a path that answers below 400, and what \
             it needs with --method, --header and --body",
            label(&request),
            answer.head.status
        )),
        // Whether it answers at all is seen by the wait for readiness.
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Prober<'_> {
    /// What was given, if it shows what it should; or the first conventional path that does.
    pub(crate) async fn first(
        &self,
        given: &Option<String>,
        usual: &[&str],
        kind: Kind,
    ) -> Result<Option<String>, String> {
        if let Some(path) = given {
            let (option, remedy) = kind.option();
            return match self.shows(path, kind, true).await {
                Ok(()) => Ok(Some(path.clone())),
                Err(why) => Err(mistake(option, &why, remedy)),
            };
        }
        for path in usual {
            let shows = timeout(ANSWER_TIMEOUT, self.shows(path, kind, false)).await;
            if matches!(shows, Ok(Ok(()))) {
                return Ok(Some((*path).to_owned()));
            }
        }
        Ok(None)
    }

    /// The path that answers as late as its query asks.
    pub(crate) async fn slow(&self, given: Option<&str>) -> Result<Option<Slow>, String> {
        if let Some(path) = given {
            let remedy = "give a path that answers as late as its query asks, as in --slow \"/slow?ms={ms}\"";
            let shown = self.answers_late(path).await;
            return shown
                .map(Some)
                .map_err(|why| mistake("--slow", &why, remedy));
        }
        for path in ["/slow?ms={ms}", "/sleep?ms={ms}", "/delay?ms={ms}"] {
            // A path that is always slow would not be held for as long as it should.
            if self.answers_at_once(path).await
                && let Ok(slow) = self.answers_late(path).await
            {
                return Ok(Some(slow));
            }
        }
        Ok(None)
    }

    fn endpoint(&self, path: &str) -> Result<Endpoint, String> {
        self.run
            .endpoint
            .at(&self.run.process.placeholders.fill(path))
    }

    async fn answers_at_once(&self, path: &str) -> bool {
        let Ok(endpoint) = self.endpoint(&path.replace("{ms}", "0")) else {
            return false;
        };
        let begun = Instant::now();
        let asked = RawConn::ask_within(&endpoint, &endpoint.request(), CAPABILITY_TIMEOUT).await;
        matches!(asked, Ok(answer) if answer.head.status < 300) && begun.elapsed() < SLOW_ANSWER / 2
    }

    async fn answers_late(&self, path: &str) -> Result<Slow, String> {
        let endpoint =
            self.endpoint(&path.replace("{ms}", &SLOW_ANSWER.as_millis().to_string()))?;
        let request = endpoint.request();
        let name = label(&request);
        let mut requests = Vec::new();
        for _ in 0..TOGETHER {
            let in_flight = InFlight::begin(&endpoint, &request).await;
            requests.push(in_flight.map_err(|broken| format!("{name}: {broken}"))?);
        }
        self.run
            .arrive(&mut requests, TOGETHER, READS_NO_MORE_AFTER)
            .await;
        let told = |in_flight: &InFlight| in_flight.arrival != Arrival::Unknown;
        let read = requests
            .iter()
            .filter(|in_flight| in_flight.arrival == Arrival::Read)
            .count();
        let at_once = requests.iter().any(told).then_some(read.max(1));
        for in_flight in requests {
            let finished = in_flight.finish(ANSWER_TIMEOUT + SLOW_ANSWER * 4).await;
            let took = finished.ended - finished.began;
            match finished.result {
                Ok(answer) if answer.head.status >= 400 => {
                    return Err(format!("{name} answers {}", answer.head.status));
                }
                Ok(answer) if took < SLOW_ANSWER => {
                    return Err(format!(
                        "{name} answered {} after {}, and was asked to take {}",
                        answer.head.status,
                        show(took),
                        show(SLOW_ANSWER)
                    ));
                }
                Ok(_) => {}
                Err(broken) => return Err(format!("{name}: {broken}")),
            }
        }
        let path = path.to_owned();
        Ok(Slow { path, at_once })
    }

    /// Whether the path shows this, or what it shows in its place.
    async fn shows(&self, path: &str, kind: Kind, given: bool) -> Result<(), String> {
        let endpoint = self.endpoint(path)?;
        let request = endpoint.request();
        let name = label(&request);
        let broken = |why: &dyn std::fmt::Display| format!("{name}: {why}");
        match kind {
            Kind::Stream | Kind::Large => {
                let begun = Instant::now();
                let answer = RawConn::ask_within(&endpoint, &request, ANSWER_TIMEOUT * 3).await;
                let answer = answer.map_err(|why| broken(&why))?;
                let (took, length) = (begun.elapsed(), answer.body.length);
                match answer.head.status {
                    status @ 400.. => Err(format!("{name} answers {status}")),
                    _ if matches!(kind, Kind::Large) && length <= LARGE => {
                        Err(format!("{name} answers with {length} bytes"))
                    }
                    _ if matches!(kind, Kind::Stream) && took < SLOW_ANSWER / 4 => Err(format!(
                        "the answer of {name} was whole after {}",
                        show(took)
                    )),
                    _ => Ok(()),
                }
            }
            Kind::Sse => {
                let opened = async {
                    let mut conn = RawConn::open(&endpoint.target())
                        .await
                        .map_err(|why| broken(&why))?;
                    let sent = conn.send(&request.bytes(true)).await;
                    sent.map_err(|why| broken(&why))?;
                    conn.head().await.map_err(|why| broken(&why))
                };
                let (head, text) = timeout(CAPABILITY_TIMEOUT, opened)
                    .await
                    .map_err(|_| broken(&"no head of an answer came"))??;
                let events = field(&text, "content-type").unwrap_or("nothing");
                match head.status {
                    200 if events.to_ascii_lowercase().contains("text/event-stream") => Ok(()),
                    200 => Err(format!("the content type of {name} is {events}")),
                    status => Err(format!("{name} answers {status}")),
                }
            }
            Kind::WebSocket => {
                match timeout(CAPABILITY_TIMEOUT, WebSocket::open(&endpoint)).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(broken(&error)),
                    Err(_) => Err(broken(&"no answer came")),
                }
            }
            Kind::Upload => {
                let request = upload(&request, b"adieu".to_vec());
                let answer = RawConn::ask_within(&endpoint, &request, ANSWER_TIMEOUT).await;
                let name = label(&request);
                let answer = answer.map_err(|why| format!("{name}: {why}"))?;
                match answer.head.status {
                    status @ 400.. => Err(format!("{name} answers {status}")),
                    300.. if !given => Err(format!("{name} answers elsewhere")),
                    _ if !given && self.everything => Err("it answers any path".to_owned()),
                    _ => Ok(()),
                }
            }
            Kind::Readiness | Kind::Liveness if given => says_yes(&endpoint).await,
            Kind::Readiness | Kind::Liveness => {
                if !self.everything && answers(self.run, path).await {
                    Ok(())
                } else {
                    Err(format!("{name} does not say yes"))
                }
            }
        }
    }
}

/// A probe may take a moment longer than the address to say yes.
async fn says_yes(endpoint: &Endpoint) -> Result<(), String> {
    let name = label(&endpoint.request());
    let begun = Instant::now();
    loop {
        let why = match RawConn::ask_within(endpoint, &endpoint.request(), CAPABILITY_TIMEOUT).await
        {
            Ok(answer) if (200..300).contains(&answer.head.status) => return Ok(()),
            Ok(answer) => format!("{name} answers {}", answer.head.status),
            Err(broken) => format!("{name}: {broken}"),
        };
        if begun.elapsed() > CAPABILITY_TIMEOUT {
            return Err(why);
        }
        sleep(PROBE_INTERVAL).await;
    }
}

fn mistake(option: &str, why: &str, remedy: &str) -> String {
    format!("{option}: {why}; {remedy}, or leave {option} out")
}
