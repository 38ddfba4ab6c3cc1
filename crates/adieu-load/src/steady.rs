//! A load that goes on whatever the server does, and keeps each of its requests with a number.
//!
//! A [`Load`](crate::Load) ends when it is refused: its server is stopped, and that is the end. This one is for a
//! deployment, where another instance comes. It goes on through refusals, and every request is kept: when it was due, when
//! it ended, on which connection, and what became of it. The number travels in the header `x-request-id`, so that
//! what was lost can be found in the logs of the server.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::http1::Http1Conn;
use crate::outcome::Outcome;
use crate::request::Request;
use crate::target::Target;

/// How fast requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many a second, on a schedule that waits for no response: an open loop. A server that stands still for a second
    /// finds the requests of that second waiting, as it would find its users.
    Rate(f64),
    /// So many clients, each of which sends its next request when it has the response to the last: a closed loop.
    Clients(usize),
}

/// Which connections requests are sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// Kept ones, as long as the server keeps them.
    Kept,
    /// A new one for each request.
    Fresh,
    /// Half of the requests on kept ones, half on new ones.
    #[default]
    Both,
}

impl Connections {
    const fn keeps(self, number: u64) -> bool {
        match self {
            Self::Kept => true,
            Self::Fresh => false,
            Self::Both => number.is_multiple_of(2),
        }
    }
}

/// One request of a steady load.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedRequest {
    /// As in its `x-request-id`, after the prefix.
    pub number: u64,
    /// When it was to be sent. In a closed loop that is when it was sent.
    pub due: Instant,
    /// When the client began to send it, or to connect.
    pub began: Instant,
    /// When its outcome was known.
    pub ended: Instant,
    /// Which connection carried it; the numbers begin with 0. None if there was no connection.
    pub connection: Option<u32>,
    /// How many requests its connection had carried before.
    pub earlier: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// What was seen of one that was not answered well.
    pub evidence: Option<Box<str>>,
    /// For how many requests it stands: more than one if there were too many to keep each answered one.
    pub weight: u32,
}

impl NumberedRequest {
    /// Whether there was a whole response that does not blame the server.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.outcome, Outcome::Answered)
    }
}

/// So many requests are open at most. What is due later waits, and its delay counts.
const MOST_OPEN: usize = 2_048;
/// A client that found no connection tries again after so long.
const RECONNECT_DELAY: Duration = Duration::from_millis(10);
/// So many requests are kept each by each client, and after that every second one that was answered.
const MOST_KEPT: usize = 65_536;
/// So many that were not answered well, and the last of them stands for all later ones. Less than half of the above, so
/// that there is room for what was answered.
const MOST_BAD: usize = 20_000;
/// So many idle connections are kept in an open loop, and used in turn.
const POOL: usize = 16;

/// A load about to start.
#[derive(Clone, Debug)]
#[must_use = "a load does nothing until `start`"]
pub struct SteadyLoad {
    target: Target,
    request: Request,
    pace: Pace,
    connections: Connections,
    timeout: Duration,
    prefix: String,
}

impl SteadyLoad {
    /// Sends this request with HTTP/1.1.
    pub fn new(target: Target, request: &Request, pace: Pace) -> Self {
        Self {
            target: target.offering(b"http/1.1"),
            request: request.clone(),
            pace,
            connections: Connections::default(),
            timeout: Duration::from_secs(10),
            prefix: "adieu".to_owned(),
        }
    }

    /// Which connections requests are sent on. Both kinds if left out.
    pub const fn connections(mut self, connections: Connections) -> Self {
        self.connections = connections;
        self
    }

    /// How long a client waits for a connection, and then for a response. 10 s if left out.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What stands before the number in `x-request-id`.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Starts on the present tokio runtime, and goes on until [`SteadyRunning::finish`] is called.
    pub fn start(self) -> SteadyRunning {
        let (end, ending) = watch::channel(false);
        let (say, state) = watch::channel(State::new());
        let shared = Arc::new(SteadyState {
            target: self.target,
            connections: self.connections,
            timeout: self.timeout,
            bytes: NumberedBytes::new(&self.request, &self.prefix),
            numbers: AtomicU64::new(0),
            opened: AtomicU32::new(0),
            pool: Mutex::new(Pool::default()),
            state: say,
        });
        let mut clients = JoinSet::new();
        match self.pace {
            Pace::Rate(rate) => {
                clients.spawn(open_loop(shared, rate, ending));
            }
            Pace::Clients(count) => {
                for client in 0..count {
                    let keeps = self.connections.keeps(client as u64);
                    clients.spawn(closed_loop(Arc::clone(&shared), keeps, ending.clone()));
                }
            }
        }
        SteadyRunning {
            clients,
            end,
            state,
        }
    }
}

/// A running load. Dropped, it ends at once.
#[must_use = "a load that is dropped ends"]
pub struct SteadyRunning {
    clients: JoinSet<Vec<NumberedRequest>>,
    end: watch::Sender<bool>,
    state: watch::Receiver<State>,
}

impl SteadyRunning {
    /// How many requests were answered well so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.state.borrow().answered
    }

    /// Completes when so many requests more were answered well. Cancel-safe.
    pub async fn answered_more(&self, count: u64) {
        let mut state = self.state.clone();
        let wanted = state.borrow().answered + count;
        // The sender is with the clients, which go on until the end is asked for.
        let _ = state.wait_for(|state| state.answered >= wanted).await;
    }

    /// The first request that was not answered well, if there is one, in words.
    #[must_use]
    pub fn first_trouble(&self) -> Option<String> {
        self.state.borrow().first_trouble.clone()
    }

    /// Completes when every request that ended in the last `span`, and at least one of them, was answered well, and when
    /// `span` has passed since `from`. Gives the moment since which it is so. Cancel-safe.
    pub async fn steady(&mut self, from: Instant, span: Duration) -> Instant {
        loop {
            let (since, last_answer) = {
                let state = self.state.borrow_and_update();
                let trouble = state.trouble.unwrap_or(from);
                (trouble.max(from), state.last_answer)
            };
            let flows = |now| last_answer.is_some_and(|at| at >= since && at + span > now);
            let now = Instant::now();
            if !flows(now) {
                // Nothing is steady that stands still.
                if self.state.changed().await.is_err() {
                    return since;
                }
            } else if now < since + span {
                sleep_until((since + span).into()).await;
            } else {
                return since;
            }
        }
    }

    /// Sends no more, waits for the responses that are still to come, and gives all requests in order. Dropped before
    /// its end, what is open is closed.
    ///
    /// # Panics
    ///
    /// If a client did.
    pub async fn finish(mut self) -> Vec<NumberedRequest> {
        let _ = self.end.send(true);
        let mut all = Vec::new();
        while let Some(requests) = self.clients.join_next().await {
            all.extend(requests.expect("a client does not panic"));
        }
        all.sort_by_key(|request| (request.due, request.number));
        all
    }
}

/// What is known while it runs.
#[derive(Debug)]
struct State {
    answered: u64,
    last_answer: Option<Instant>,
    /// When the last request ended that was not answered well.
    trouble: Option<Instant>,
    first_trouble: Option<String>,
}

impl State {
    const fn new() -> Self {
        Self {
            answered: 0,
            last_answer: None,
            trouble: None,
            first_trouble: None,
        }
    }
}

struct SteadyState {
    target: Target,
    connections: Connections,
    timeout: Duration,
    bytes: NumberedBytes,
    numbers: AtomicU64,
    opened: AtomicU32,
    pool: Mutex<Pool>,
    state: watch::Sender<State>,
}

/// The bytes of a request, with a place for its number.
pub(crate) struct NumberedBytes {
    kept: Vec<u8>,
    fresh: Vec<u8>,
    /// Where the digits are, if the request has no `x-request-id` of its own.
    digits: Option<usize>,
}

const DIGITS: usize = 10;

impl NumberedBytes {
    pub(crate) fn new(request: &Request, prefix: &str) -> Self {
        const NAME: &str = "x-request-id";
        let mut request = request.clone();
        let given = request
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(NAME));
        let value = format!("{prefix}-{:0DIGITS$}", 0);
        if !given {
            request.headers.insert(0, (NAME.to_owned(), value.clone()));
        }
        // It is the first header after the host, so it stands at the same place in both.
        let head = request.head(false);
        let at = head.find(&value).map(|at| at + prefix.len() + 1);
        Self {
            kept: request.bytes(false),
            fresh: request.bytes(true),
            digits: at.filter(|_| !given),
        }
    }

    pub(crate) fn write(&self, number: u64, keeps: bool, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(if keeps { &self.kept } else { &self.fresh });
        if let Some(at) = self.digits {
            let mut rest = number;
            for byte in into[at..at + DIGITS].iter_mut().rev() {
                *byte = b'0' + u8::try_from(rest % 10).unwrap_or(0);
                rest /= 10;
            }
        }
    }
}

/// The idle connections of an open loop, used in turn so that all of them live.
#[derive(Default)]
struct Pool {
    idle: VecDeque<NumberedConn>,
    busy: usize,
}

pub(crate) struct NumberedConn {
    pub(crate) conn: Http1Conn,
    number: u32,
    pub(crate) carried: u64,
}

impl SteadyState {
    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that the server has not closed. None as long as the pool is not full, and if it is empty.
    async fn idle(&self) -> Option<NumberedConn> {
        loop {
            let mut conn = {
                let mut pool = self.pool();
                if pool.idle.len() + pool.busy < POOL {
                    return None;
                }
                pool.idle.pop_front()?
            };
            if conn.conn.is_open().await {
                return Some(conn);
            }
        }
    }

    async fn connect(&self) -> Result<NumberedConn, Failure> {
        let number = self.opened.fetch_add(1, Relaxed);
        connect(&self.target, self.timeout, number).await
    }

    fn settle(&self, request: &NumberedRequest) {
        self.state.send_modify(|state| {
            if request.is_good() {
                state.answered += 1;
                state.last_answer = Some(request.ended);
            } else {
                state.trouble = Some(request.ended);
                if state.first_trouble.is_none() {
                    let outcome = request.outcome;
                    state.first_trouble = Some(match &request.evidence {
                        Some(evidence) => format!("{outcome} ({evidence})"),
                        None => outcome.to_string(),
                    });
                }
            }
        });
    }
}

/// What became of an attempt to connect, and what was seen.
pub(crate) type Failure = (Outcome, Option<Box<str>>);

/// A new connection with this number.
pub(crate) async fn connect(
    target: &Target,
    patience: Duration,
    number: u32,
) -> Result<NumberedConn, Failure> {
    match timeout(patience, target.connect()).await {
        Ok(Ok(connection)) => Ok(NumberedConn {
            conn: Http1Conn::new(connection),
            number,
            carried: 0,
        }),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err((Outcome::Refused, None))
        }
        Ok(Err(error)) => Err((Outcome::Unsent, Some(format!("connecting: {error}").into()))),
        Err(_) => Err((Outcome::Unsent, Some("connecting: no answer".into()))),
    }
}

/// One request on this connection: what became of it, what was seen, and whether the connection is left.
pub(crate) async fn exchange(
    patience: Duration,
    conn: &mut NumberedConn,
    bytes: &[u8],
) -> (Outcome, Option<Box<str>>, bool) {
    let exchanged = timeout(patience, conn.conn.exchange(bytes)).await;
    let exchanged = exchanged.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    conn.carried += 1;
    match exchanged {
        Ok(answer) => {
            let outcome = answer.outcome();
            let evidence = (outcome != Outcome::Answered)
                .then(|| format!("status {}", answer.status).into_boxed_str());
            (outcome, evidence, answer.keep_alive)
        }
        Err(error) => {
            let outcome = conn.conn.outcome_of(&error);
            let evidence = conn.conn.describe(&error).into_boxed_str();
            (outcome, Some(evidence), false)
        }
    }
}

/// Sends on a schedule.
async fn open_loop(
    shared: Arc<SteadyState>,
    rate: f64,
    ending: watch::Receiver<bool>,
) -> Vec<NumberedRequest> {
    let mut ledger = Ledger::default();
    let one = move |number, due| {
        let shared = Arc::clone(&shared);
        async move { one(&shared, number, due).await }
    };
    on_schedule(rate, ending, one, |request| ledger.keep(request)).await;
    ledger.close()
}

/// Begins so many a second until `ending` says so, and hands over each when it is done. Dropped before its end, what is open
/// is closed.
pub(crate) async fn on_schedule<T: Send + 'static, F>(
    rate: f64,
    mut ending: watch::Receiver<bool>,
    one: impl Fn(u64, Instant) -> F,
    mut keep: impl FnMut(T),
) where
    F: Future<Output = T> + Send + 'static,
{
    let open = Arc::new(Semaphore::new(MOST_OPEN));
    let mut requests = JoinSet::new();
    let start = Instant::now();
    for number in 0_u64.. {
        let due = start + Duration::from_secs_f64(number as f64 / rate);
        tokio::select! {
            // Both branches only wait: what loses has done nothing.
            biased;
            _ = ending.wait_for(|ending| *ending) => break,
            () = sleep_until(due.into()) => {}
        }
        let Ok(permit) = Arc::clone(&open).acquire_owned().await else {
            break;
        };
        let request = one(number, due);
        requests.spawn(async move {
            let request = request.await;
            drop(permit);
            request
        });
        while let Some(request) = requests.try_join_next() {
            keep(request.expect("a request does not panic"));
        }
    }
    while let Some(request) = requests.join_next().await {
        keep(request.expect("a request does not panic"));
    }
}

async fn one(shared: &SteadyState, number: u64, due: Instant) -> NumberedRequest {
    let keeps = shared.connections.keeps(number);
    let began = Instant::now();
    let idle = if keeps { shared.idle().await } else { None };
    let connected = match idle {
        Some(conn) => Ok(conn),
        None => shared.connect().await,
    };
    let mut request = NumberedRequest {
        number,
        due,
        began,
        ended: began,
        connection: None,
        earlier: 0,
        outcome: Outcome::Answered,
        evidence: None,
        weight: 1,
    };
    match connected {
        Err((outcome, evidence)) => {
            (request.outcome, request.evidence) = (outcome, evidence);
            request.ended = Instant::now();
        }
        Ok(mut conn) => {
            (request.connection, request.earlier) = (Some(conn.number), conn.carried);
            let mut bytes = Vec::new();
            shared.bytes.write(number, keeps, &mut bytes);
            if keeps {
                shared.pool().busy += 1;
            }
            let (outcome, evidence, left) = exchange(shared.timeout, &mut conn, &bytes).await;
            request.ended = Instant::now();
            (request.outcome, request.evidence) = (outcome, evidence);
            if keeps {
                let mut pool = shared.pool();
                pool.busy -= 1;
                if left && pool.idle.len() < POOL {
                    pool.idle.push_back(conn);
                }
            }
        }
    }
    shared.settle(&request);
    request
}

/// One client: its next request goes out when it has the response to the last.
async fn closed_loop(
    shared: Arc<SteadyState>,
    keeps: bool,
    ending: watch::Receiver<bool>,
) -> Vec<NumberedRequest> {
    let mut ledger = Ledger::default();
    let mut bytes = Vec::new();
    let mut kept: Option<NumberedConn> = None;
    while !*ending.borrow() {
        let number = shared.numbers.fetch_add(1, Relaxed);
        let began = Instant::now();
        let connected = match kept.take() {
            Some(conn) => Ok(conn),
            None => shared.connect().await,
        };
        let mut request = NumberedRequest {
            number,
            due: began,
            began,
            ended: began,
            connection: None,
            earlier: 0,
            outcome: Outcome::Answered,
            evidence: None,
            weight: 1,
        };
        let mut may_go_on = true;
        match connected {
            Err((outcome, evidence)) => {
                (request.outcome, request.evidence) = (outcome, evidence);
                request.ended = Instant::now();
                may_go_on = false;
            }
            Ok(mut conn) => {
                (request.connection, request.earlier) = (Some(conn.number), conn.carried);
                shared.bytes.write(number, keeps, &mut bytes);
                let (outcome, evidence, left) = exchange(shared.timeout, &mut conn, &bytes).await;
                request.ended = Instant::now();
                (request.outcome, request.evidence) = (outcome, evidence);
                if keeps && left && conn.conn.is_open().await {
                    kept = Some(conn);
                }
            }
        }
        shared.settle(&request);
        ledger.keep(request);
        if !may_go_on {
            sleep(RECONNECT_DELAY).await;
        }
    }
    ledger.close()
}

/// All requests, or of very many answered ones every second, fourth and so on.
#[derive(Default)]
struct Ledger {
    requests: Vec<NumberedRequest>,
    /// Of so many answered requests one is kept: two to this power.
    thinned: u32,
    answered: u64,
    /// How many were not answered well, and where the last of them stands that is kept.
    bad: usize,
    last_bad: usize,
}

impl Ledger {
    fn keep(&mut self, request: NumberedRequest) {
        if request.is_good() {
            self.answered += 1;
            if !self.answered.is_multiple_of(1 << self.thinned) {
                return;
            }
        } else {
            self.bad += 1;
            if self.bad > MOST_BAD {
                self.requests[self.last_bad].weight += 1;
                return;
            }
        }
        if self.requests.len() >= MOST_KEPT {
            let mut odd = false;
            self.requests.retain(|request| {
                odd = odd != request.is_good();
                !request.is_good() || odd
            });
            self.thinned += 1;
            let last_bad = self.requests.iter().rposition(|it| !it.is_good());
            self.last_bad = last_bad.unwrap_or_default();
        }
        if !request.is_good() {
            self.last_bad = self.requests.len();
        }
        self.requests.push(request);
    }

    fn close(mut self) -> Vec<NumberedRequest> {
        let good = self.requests.iter_mut().filter(|it| it.is_good());
        for request in good {
            request.weight = 1 << self.thinned;
        }
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64, outcome: Outcome) -> NumberedRequest {
        let now = Instant::now();
        NumberedRequest {
            number,
            due: now,
            began: now,
            ended: now,
            connection: None,
            earlier: 0,
            outcome,
            evidence: None,
            weight: 1,
        }
    }

    #[test]
    fn the_number_stands_in_the_header_and_nothing_else_changes() {
        let mut request = Request::get("/a");
        request.headers.push(("b".to_owned(), "c".to_owned()));
        let bytes = NumberedBytes::new(&request, "run");
        let mut text = Vec::new();
        bytes.write(1_234, true, &mut text);
        assert_eq!(
            String::from_utf8(text.clone()).unwrap(),
            "GET /a HTTP/1.1\r\nhost: localhost\r\nx-request-id: run-0000001234\r\nb: c\r\n\r\n"
        );
        bytes.write(7, false, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("x-request-id: run-0000000007\r\n"), "{text}");
        assert!(text.contains("connection: close\r\n"), "{text}");
        let own = ("X-Request-Id".to_owned(), "mine".to_owned());
        request.headers.push(own);
        let mut text = Vec::new();
        NumberedBytes::new(&request, "run").write(5, true, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("X-Request-Id: mine\r\n") && !text.contains("run-"));
    }

    #[test]
    fn of_too_many_answered_requests_some_are_kept_and_of_the_others_all() {
        let mut ledger = Ledger::default();
        for number in 0..(3 * MOST_KEPT as u64) {
            let outcome = match number % 1_000 {
                0 => Outcome::Refused,
                _ => Outcome::Answered,
            };
            ledger.keep(request(number, outcome));
        }
        let kept = ledger.close();
        assert!(kept.len() <= MOST_KEPT, "{}", kept.len());
        let refused = kept.iter().filter(|it| !it.is_good()).count();
        assert_eq!(refused, (3 * MOST_KEPT).div_ceil(1_000));
        let all: u64 = kept.iter().map(|it| u64::from(it.weight)).sum();
        assert!(all.abs_diff(3 * MOST_KEPT as u64) < 100, "{all}");
        let mut refused = Ledger::default();
        for number in 0..(2 * MOST_KEPT as u64) {
            refused.keep(request(number, Outcome::Refused));
        }
        let kept = refused.close();
        let all: usize = kept.iter().map(|it| it.weight as usize).sum();
        assert_eq!((kept.len(), all), (MOST_BAD, 2 * MOST_KEPT));
    }
}
