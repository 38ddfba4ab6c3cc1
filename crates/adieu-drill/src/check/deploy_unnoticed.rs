//! A restart must be invisible to the clients that are connected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::restart::restart;
use super::{Spec, Trying, race};
use crate::context::CheckContext;
use crate::endpoint::Endpoint;
use crate::finding::Finding;
use crate::process::describe;
use crate::raw::{ANSWER_TIMEOUT, EventStream, Message, RawConn, WebSocket};
use crate::report::Group;
use crate::running::RunningTarget;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "deploy-unnoticed",
    group: Group::KeepAlive,
    quick: false,
    why: "A deploy that closes connections shows at every client: a chat connects again, a stream begins anew, a call is cut.",
    how: "Clients with keep-alive connections, WebSockets and event streams are connected when the restart signal comes, and go on \
          until the new process serves. A client notices the restart if its connection is closed or announced to be, if it gets \
          an error, or if nothing comes for a second longer than before. No client may notice it.",
    applies: "Only with --restart-signal SIGNAL, the signal at which the program is replaced by its new version: SIGUSR2 for a \
              hand-off of adieu, SIGHUP under `adieu run`. Needs HTTP. WebSockets with --ws PATH, event streams with --sse PATH, or \
              where they are found.",
    threshold: |_| Threshold::Count(0, "clients that notice a restart"),
    hints: &[
        (
            "adieu",
            "SIGUSR2 moves idle HTTP/1 connections to the new process; a WebSocket goes along if its handler gives its state \
             (`socket.carry(state)`)",
        ),
        (
            "any",
            "`adieu run --front ADDRESS` keeps the clients' connections, and only what is behind it is restarted; without it, let \
             clients connect again by themselves: `retry:` in an event stream, the close code 1012 of a WebSocket",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const WEBSOCKETS: usize = 8;
const STREAMS: usize = 8;
/// Between two requests of a client, so that connections are both idle and busy when the signal comes.
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// How long the clients are watched before the signal, and after the restart.
const WATCH_TIME: Duration = Duration::from_secs(1);
/// A pause that is longer than those before the signal by so much is noticed.
const NOTICED_PAUSE: Duration = Duration::from_secs(1);
/// With fewer events before the signal it is not known how often they come.
const RHYTHM: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClientKind {
    KeepAlive,
    WebSocket,
    EventStream,
}

impl ClientKind {
    /// `1 WebSocket`, `8 WebSockets`.
    fn counted(self, count: usize) -> String {
        let one = match self {
            Self::KeepAlive => "keep-alive connection",
            Self::WebSocket => "WebSocket",
            Self::EventStream => "event stream",
        };
        format!("{count} {one}{}", if count == 1 { "" } else { "s" })
    }
}

/// When the restart began, and when the clients may go. Read by all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    signal: Option<Instant>,
    over: bool,
}

/// What one client saw.
struct Seen {
    kind: ClientKind,
    /// How its connection ended, and when, if it did before the client left.
    closed: Option<(String, Instant)>,
    /// The longest time without a sign of life, before the signal and since.
    quiet: (Duration, Duration),
    /// Signs of life before the signal.
    signs: u32,
    last: Instant,
}

impl Seen {
    fn new(kind: ClientKind) -> Self {
        Self {
            kind,
            closed: None,
            quiet: (Duration::ZERO, Duration::ZERO),
            signs: 0,
            last: Instant::now(),
        }
    }

    /// Something came after it had been waited for since then.
    fn sign(&mut self, since: Instant, stage: Stage) {
        let now = Instant::now();
        let time = now - since;
        match stage.signal {
            // What began to be waited for before the signal and came after it counts as after.
            Some(signal) if now > signal => self.quiet.1 = self.quiet.1.max(time),
            _ => {
                self.quiet.0 = self.quiet.0.max(time);
                self.signs += 1;
            }
        }
        self.last = now;
    }

    fn close(mut self, how: impl Into<String>) -> Self {
        self.closed = Some((how.into(), Instant::now()));
        self
    }

    /// Whether its connection ended before the restart.
    fn left_early(&self, signal: Instant) -> bool {
        self.closed.as_ref().is_some_and(|(_, at)| *at < signal)
    }

    /// Whether the rhythm before the signal is known, and was lost since.
    fn paused(&self) -> bool {
        self.signs >= RHYTHM && self.quiet.1 > self.quiet.0 + NOTICED_PAUSE
    }
}

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let Some(signal) = cx.drill.restart_signal else {
        return Ok(Finding::skipped(
            "no signal is said to restart the program and go on serving; say it with --restart-signal SIGNAL",
        ));
    };
    let restarts = cx.times(1, 2, 5);
    let mut seen = Vec::new();
    let mut in_place = 0;
    for number in 1..=restarts {
        cx.step(
            u64::from(number - 1),
            &format!("restart {number} of {restarts}"),
        );
        let run = cx.start().await?;
        let (stage, stages) = watch::channel(Stage::default());
        let mut clients = match connect(cx, &run, &stages).await {
            Ok(clients) => clients,
            Err(finding) => return Ok(finding),
        };
        sleep(WATCH_TIME).await;
        stage.send_modify(|stage| stage.signal = Some(Instant::now()));
        let done = restart(&run, signal.raw(), cx.drill.grace).await;
        sleep(WATCH_TIME).await;
        stage.send_modify(|stage| stage.over = true);
        in_place += u32::from(!done.replaced);
        let ended = run.process.ended();
        let mut of_this = Vec::new();
        let left = async {
            while let Some(Ok(client)) = clients.join_next().await {
                of_this.push(client);
            }
        };
        if timeout(ANSWER_TIMEOUT * 2, left).await.is_err() {
            return Ok(Finding::late("the clients did not come to an end"));
        }
        let early = of_this
            .iter()
            .filter(|client| client.left_early(done.signal))
            .count();
        if early == of_this.len() {
            return Ok(Finding::skipped(
                "every connection was closed before the restart; the program keeps none open for so long",
            )
            .shown(run.last_lines(5)));
        }
        of_this.retain(|client| !client.left_early(done.signal));
        let noticed = of_this.iter().any(|client| client.closed.is_some());
        if let Some(ended) = ended.filter(|_| noticed && !done.replaced) {
            return Ok(Finding::failed(format!(
                "it ended at the {signal}: {}, and no other process took its place",
                describe(ended.status)
            ))
            .shown(evidence(&of_this, signal.name(), done.signal))
            .shown(run.last_lines(5)));
        }
        let evidence = evidence(&of_this, signal.name(), done.signal);
        run.process.kill().await;
        seen.push((of_this, evidence));
    }
    Ok(judge(cx, seen, restarts, in_place))
}

fn judge(
    cx: &CheckContext<'_>,
    seen: Vec<(Vec<Seen>, Vec<String>)>,
    restarts: u32,
    in_place: u32,
) -> Finding {
    let (all, evidence): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let all: Vec<Seen> = all.into_iter().flatten().collect();
    let closed = all.iter().filter(|client| client.closed.is_some()).count();
    let paused = all
        .iter()
        .filter(|client| client.closed.is_none() && client.paused())
        .count();
    let noticed = (closed + paused) as u64;
    let longest = all.iter().map(|client| client.quiet.1).max();
    let longest = show(longest.unwrap_or_default());
    let measured = format!("{noticed} of {}", all.len());
    let times = match restarts {
        1 => "a restart".to_owned(),
        some => format!("{some} restarts"),
    };
    if noticed > cx.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{noticed} of {} clients noticed {times}: {}",
            all.len(),
            counted(&all)
        ));
        // A client that was not served in time may have been the one without a processor.
        finding.by_time = closed == 0;
        return finding
            .shown(evidence.into_iter().flatten())
            .measured(measured);
    }
    let kinds: BTreeMap<ClientKind, usize> =
        all.iter().fold(BTreeMap::new(), |mut kinds, client| {
            *kinds.entry(client.kind).or_default() += 1;
            kinds
        });
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| kind.counted(*count))
        .collect();
    let place = match in_place {
        0 => "",
        _ => "; no process was replaced",
    };
    Finding::passed(format!(
        "{noticed} of {} clients noticed {times}: {}; nothing came for {longest} at most{place}",
        all.len(),
        kinds.join(", ")
    ))
    .measured(measured)
}

/// `16 keep-alive connections closed, 8 WebSockets paused`.
fn counted(all: &[Seen]) -> String {
    let mut counts: BTreeMap<(ClientKind, &str), usize> = BTreeMap::new();
    for client in all {
        let what = match (&client.closed, client.paused()) {
            (Some(_), _) => "closed",
            (None, true) => "paused",
            (None, false) => continue,
        };
        *counts.entry((client.kind, what)).or_default() += 1;
    }
    let words = counts
        .iter()
        .map(|((kind, what), count)| format!("{} {what}", kind.counted(*count)));
    words.collect::<Vec<_>>().join(", ")
}

/// A line for each way in which clients noticed it.
fn evidence(all: &[Seen], name: &str, signal: Instant) -> Vec<String> {
    let mut ways: BTreeMap<(ClientKind, String), Vec<Duration>> = BTreeMap::new();
    for client in all {
        let (how, after) = match &client.closed {
            Some((how, at)) => (how.clone(), at.saturating_duration_since(signal)),
            None if client.paused() => ("nothing came for so long".to_owned(), client.quiet.1),
            None => continue,
        };
        ways.entry((client.kind, how)).or_default().push(after);
    }
    ways.iter()
        .map(|((kind, how), times)| {
            let first = show(times.iter().min().copied().unwrap_or_default());
            let last = show(times.iter().max().copied().unwrap_or_default());
            format!(
                "{}: {how}; {first} to {last} after {name}",
                kind.counted(times.len())
            )
        })
        .collect()
}

/// Connects all clients, which go on until the stage is over.
async fn connect(
    cx: &CheckContext<'_>,
    run: &RunningTarget,
    stages: &watch::Receiver<Stage>,
) -> Result<JoinSet<Seen>, Finding> {
    let mut clients = JoinSet::new();
    let at = |path: &String| run.endpoint.at(&run.process.placeholders.fill(path)).ok();
    if !race::never_keeps(cx) {
        let request: Arc<[u8]> = run.endpoint.request().bytes(false).into();
        for _ in 0..cx.drill.clients {
            let conn = run.connect().await.map_err(|broken| {
                Finding::skipped(format!(
                    "before any restart, a client could not connect: {broken}"
                ))
            })?;
            clients.spawn(keep_alive(conn, Arc::clone(&request), stages.clone()));
        }
    }
    if let Some(endpoint) = cx.capabilities.ws.as_ref().and_then(at) {
        for _ in 0..WEBSOCKETS {
            // One that does not open is the matter of another check.
            if let Ok(Ok(socket)) = timeout(ANSWER_TIMEOUT, WebSocket::open(&endpoint)).await {
                clients.spawn(web_socket(socket, stages.clone()));
            }
        }
    }
    if let Some(endpoint) = cx.capabilities.sse.as_ref().and_then(at) {
        for _ in 0..STREAMS {
            if let Ok(stream) = open_stream(&endpoint).await {
                clients.spawn(event_stream(stream, stages.clone()));
            }
        }
    }
    if clients.is_empty() {
        return Err(Finding::skipped(format!(
            "{}, and it has no WebSocket and no event stream: there is no connection that a restart could close",
            super::NEVER_KEEPS
        )));
    }
    Ok(clients)
}

async fn open_stream(endpoint: &Endpoint) -> Result<EventStream, String> {
    timeout(ANSWER_TIMEOUT, EventStream::open(endpoint))
        .await
        .unwrap_or_else(|_| Err("no answer".to_owned()))
}

/// Asks again and again on one connection.
async fn keep_alive(mut conn: RawConn, request: Arc<[u8]>, stages: watch::Receiver<Stage>) -> Seen {
    let mut seen = Seen::new(ClientKind::KeepAlive);
    loop {
        let since = Instant::now();
        if let Err(broken) = conn.send(&request).await {
            return seen.close(format!("closed between two requests ({broken})"));
        }
        match conn.answer_within(ANSWER_TIMEOUT).await {
            Ok(answer) if answer.head.status >= 500 => {
                return seen.close(format!("answered with {}", answer.head.status));
            }
            Ok(answer) if !answer.head.keep_alive => {
                return seen.close("answered with `Connection: close`");
            }
            Ok(_) => seen.sign(since, *stages.borrow()),
            Err(broken) => return seen.close(format!("no answer to a request: {broken}")),
        }
        if stages.borrow().over {
            return seen;
        }
        sleep(REQUEST_INTERVAL).await;
    }
}

/// Sends pings, which every server answers that follows the protocol, and reads.
async fn web_socket(mut socket: WebSocket, stages: watch::Receiver<Stage>) -> Seen {
    const PING: u8 = 9;
    const PONG: u8 = 10;
    let mut seen = Seen::new(ClientKind::WebSocket);
    loop {
        let since = Instant::now();
        if let Err(error) = socket.send(PING, b"adieu").await {
            return seen.close(format!("cut without a close frame ({error})"));
        }
        let message = tokio::select! {
            message = socket.next() => message,
            // It says nothing, not even to a ping. That it is not closed is what counts then.
            () = over(stages.clone()) => return seen,
        };
        match message {
            Ok(Message::Close(Some(code), reason)) => {
                return seen.close(format!("closed with code {code} {reason}").trim_end());
            }
            Ok(Message::Close(None, _)) => return seen.close("closed without a code"),
            Ok(Message::Ping(payload)) => {
                // What was sent in vain shows at the next message.
                let _ = socket.send(PONG, &payload).await;
            }
            Ok(Message::Other) => seen.sign(since, *stages.borrow()),
            Err(error) => return seen.close(format!("cut without a close frame ({error})")),
        }
        if stages.borrow().over {
            return seen;
        }
        sleep(REQUEST_INTERVAL).await;
    }
}

/// Reads events.
async fn event_stream(mut stream: EventStream, stages: watch::Receiver<Stage>) -> Seen {
    let mut seen = Seen::new(ClientKind::EventStream);
    loop {
        let since = seen.last;
        let next = tokio::select! {
            next = stream.next() => next,
            () = over(stages.clone()) => return seen,
        };
        match next {
            Ok(true) => seen.sign(since, *stages.borrow()),
            Ok(false) => return seen.close("ended"),
            Err(error) => return seen.close(format!("cut ({error})")),
        }
    }
}

/// Completes when the clients may go.
async fn over(mut stages: watch::Receiver<Stage>) {
    // The sender goes when the check is dropped, and with it the clients.
    let _ = stages.wait_for(|stage| stage.over).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(kind: ClientKind, closed: bool, quiet: (u64, u64), signs: u32) -> Seen {
        let mut seen = Seen::new(kind);
        seen.quiet = (
            Duration::from_millis(quiet.0),
            Duration::from_millis(quiet.1),
        );
        seen.signs = signs;
        match closed {
            true => seen.close("cut"),
            false => seen,
        }
    }

    #[test]
    fn a_pause_counts_against_the_rhythm_before_the_signal() {
        let paused = |quiet, signs| client(ClientKind::EventStream, false, quiet, signs).paused();
        assert!(paused((20, 1_100), 50));
        assert!(!paused((20, 900), 50));
        assert!(!paused((2_000, 2_500), 3));
        // Events that come every few seconds have no rhythm that a second before the signal could show.
        assert!(!paused((20, 5_000), 1));
    }

    #[test]
    fn clients_are_counted_by_kind_and_by_what_they_noticed() {
        let all = [
            client(ClientKind::WebSocket, true, (0, 0), 9),
            client(ClientKind::KeepAlive, true, (0, 0), 9),
            client(ClientKind::KeepAlive, true, (0, 0), 9),
            client(ClientKind::KeepAlive, false, (0, 5_000), 9),
            client(ClientKind::KeepAlive, false, (0, 10), 9),
        ];
        assert_eq!(
            counted(&all),
            "2 keep-alive connections closed, 1 keep-alive connection paused, 1 WebSocket closed"
        );
        let lines = evidence(&all, "SIGHUP", Instant::now());
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0].starts_with("2 keep-alive connections: cut; "),
            "{lines:?}"
        );
    }
}
