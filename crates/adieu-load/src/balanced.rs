//! A load through a simulated balancer.
//!
//! The client does what a balancer would do: it picks an instance for each connection or request, keeps idle connections to
//! the instances, and tries again where the rules say so. Nothing stands between it and the instances, so that it knows of
//! every attempt what became of it and why.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::outcome::{Loss, Outcome};
use crate::request::Request;
use crate::steady::{NumberedBytes, NumberedConn, connect, exchange, on_schedule};
use crate::target::Target;

/// What is balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Connections: each stays with its instance until it ends, whatever happens to the routes (layer 4).
    Connections,
    /// Requests: each may go to another instance, on a connection of the balancer's own (layer 7).
    Requests,
}

/// After which failures of an attempt a balancer of requests makes another one. What may have been done already is not sent
/// again with POST or PATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// The instance refused the connection.
    Refused,
    /// The instance had closed the keep-alive connection on which the request was sent.
    Reused,
    /// Any connection broke before a byte of the response.
    Reset,
}

/// How a balancer behaves.
#[derive(Clone, Debug)]
pub struct BalancerRules {
    /// What is balanced.
    pub layer: Layer,
    /// So many idle connections are kept to each instance. Of connections: so many clients keep theirs.
    pub pool: usize,
    /// An idle connection is closed after so long.
    pub idle_timeout: Duration,
    /// So many more attempts are made at most.
    pub retries: u32,
    /// After which failures.
    pub retry_on: Vec<RetryOn>,
}

/// One attempt of a request at an instance.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Which instance.
    pub instance: u32,
    /// When the connection was picked or begun.
    pub began: Instant,
    /// When its outcome was known.
    pub ended: Instant,
    /// Whether the connection had carried a request before.
    pub reused: bool,
    /// What became of it.
    pub outcome: Outcome,
}

/// One request and all attempts that were made for it.
#[derive(Clone, Debug)]
pub struct BalancedRequest {
    /// As in its `x-request-id`.
    pub number: u64,
    /// When it was to be sent.
    pub due: Instant,
    /// When the client had its response, or knew that there is none.
    pub ended: Instant,
    /// In order. Empty if no instance was in the routes.
    pub attempts: Vec<Attempt>,
}

impl BalancedRequest {
    /// What the client sees: what became of the last attempt.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let last = self.attempts.last().map(|attempt| attempt.outcome);
        last.unwrap_or(Outcome::Refused)
    }
}

/// A load through a balancer. Dropped, it ends.
#[must_use = "a load that is dropped ends"]
pub struct BalancedLoad {
    shared: Arc<BalancedState>,
    end: watch::Sender<bool>,
    task: JoinHandle<Vec<BalancedRequest>>,
}

struct BalancedState {
    rules: BalancerRules,
    bytes: NumberedBytes,
    /// Whether a request may be sent again that an instance may have done already.
    idempotent: bool,
    timeout: Duration,
    routes: Mutex<Routes>,
    answered: watch::Sender<u64>,
}

#[derive(Default)]
struct Routes {
    instances: Vec<Instance>,
    /// Connections of clients that keep theirs, each with the instance it goes to.
    clients: VecDeque<(u32, NumberedConn)>,
    busy_clients: usize,
    turn: usize,
    opened: u32,
}

struct Instance {
    id: u32,
    target: Target,
    routed: bool,
    idle: Vec<(NumberedConn, Instant)>,
}

impl BalancedLoad {
    /// Starts on the present tokio runtime: so many requests a second, on a schedule that waits for no response.
    pub fn start(
        rules: BalancerRules,
        request: &Request,
        rate: f64,
        timeout: Duration,
        id_prefix: &str,
    ) -> Self {
        let (end, ending) = watch::channel(false);
        let (answered, _) = watch::channel(0);
        let shared = Arc::new(BalancedState {
            rules,
            bytes: NumberedBytes::new(request, id_prefix),
            idempotent: !matches!(&*request.method, "POST" | "PATCH"),
            timeout,
            routes: Mutex::default(),
            answered,
        });
        let sending = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut all = Vec::new();
            let one = move |number, due| {
                let shared = Arc::clone(&sending);
                async move { shared.one(number, due).await }
            };
            on_schedule(rate, ending, one, |request| all.push(request)).await;
            all.sort_by_key(|request: &BalancedRequest| request.number);
            all
        });
        Self { shared, end, task }
    }

    /// Routes to this instance from now on.
    pub fn add(&self, id: u32, target: &Target) {
        self.shared.routes().instances.push(Instance {
            id,
            target: target.clone().offering(b"http/1.1"),
            routed: true,
            idle: Vec::new(),
        });
    }

    /// Sends nothing new to this instance. Connections of clients stay with it.
    pub fn remove(&self, id: u32) {
        for instance in &mut self.shared.routes().instances {
            if instance.id == id {
                instance.routed = false;
                instance.idle.clear();
            }
        }
    }

    /// Closes all idle connections to this instance.
    pub fn cut(&self, id: u32) {
        let mut routes = self.shared.routes();
        routes.clients.retain(|(instance, _)| *instance != id);
    }

    /// Completes when so many requests more were answered well. Cancel-safe.
    pub async fn answered_more(&self, count: u64) {
        let mut answered = self.shared.answered.subscribe();
        let wanted = *answered.borrow() + count;
        let _ = answered.wait_for(|answered| *answered >= wanted).await;
    }

    /// Sends no more, waits for the responses that are still to come, and gives all requests in order. Dropped before
    /// its end, what is open is closed.
    ///
    /// # Panics
    ///
    /// If a client did.
    pub async fn finish(mut self) -> Vec<BalancedRequest> {
        let _ = self.end.send(true);
        (&mut self.task).await.expect("a client does not panic")
    }
}

impl Drop for BalancedLoad {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where a request goes.
struct Route {
    instance: u32,
    conn: Result<NumberedConn, Target>,
}

impl BalancedState {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn one(&self, number: u64, due: Instant) -> BalancedRequest {
        let attempts = match self.rules.layer {
            Layer::Connections => self.by_connection(number).await,
            Layer::Requests => self.by_request(number).await,
        };
        let request = BalancedRequest {
            number,
            due,
            ended: Instant::now(),
            attempts,
        };
        if request.outcome() == Outcome::Answered {
            self.answered.send_modify(|answered| *answered += 1);
        }
        request
    }

    /// Every other client keeps its connection, and with it its instance.
    async fn by_connection(&self, number: u64) -> Vec<Attempt> {
        let keeps = number.is_multiple_of(2);
        let kept = if keeps {
            self.kept_client().await
        } else {
            None
        };
        let route = match kept {
            Some((instance, conn)) => Some(Route {
                instance,
                conn: Ok(conn),
            }),
            None => self.routes().pick(&[]).map(|at| at.1),
        };
        let Some(route) = route else {
            return Vec::new();
        };
        let instance = route.instance;
        if keeps {
            self.routes().busy_clients += 1;
        }
        let (attempt, left) = self.attempt(number, route, keeps).await;
        if keeps {
            let mut routes = self.routes();
            routes.busy_clients -= 1;
            routes.clients.extend(left.map(|conn| (instance, conn)));
        }
        vec![attempt]
    }

    /// The connection of a client that the instance has not closed. None as long as there are fewer clients than there
    /// may be.
    async fn kept_client(&self) -> Option<(u32, NumberedConn)> {
        loop {
            let mut kept = {
                let mut routes = self.routes();
                if routes.clients.len() + routes.busy_clients < self.rules.pool {
                    return None;
                }
                routes.clients.pop_front()?
            };
            if kept.1.conn.is_open().await {
                return Some(kept);
            }
        }
    }

    /// An attempt at one instance after the other, as far as the rules go.
    async fn by_request(&self, number: u64) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        loop {
            let tried: Vec<u32> = attempts.iter().map(|attempt| attempt.instance).collect();
            let Some((at, mut route)) = self.routes().pick(&tried) else {
                return attempts;
            };
            if let Some(conn) = self.idle(at, route.instance).await {
                route.conn = Ok(conn);
            }
            let instance = route.instance;
            let (attempt, left) = self.attempt(number, route, true).await;
            if let Some(conn) = left {
                let mut routes = self.routes();
                let found = routes.instances.iter_mut().find(|it| it.id == instance);
                if let Some(instance) = found.filter(|it| it.routed)
                    && instance.idle.len() < self.rules.pool
                {
                    instance.idle.push((conn, Instant::now()));
                }
            }
            let again = self.retries(&attempt);
            attempts.push(attempt);
            if !again || attempts.len() > self.rules.retries as usize {
                return attempts;
            }
        }
    }

    /// An idle connection to this instance, as far as the balancer knows: what the instance has closed and the balancer has
    /// seen is none.
    async fn idle(&self, at: usize, id: u32) -> Option<NumberedConn> {
        loop {
            let (mut conn, since) = {
                let mut routes = self.routes();
                let instance = routes.instances.get_mut(at).filter(|it| it.id == id)?;
                instance.idle.pop()?
            };
            if since.elapsed() < self.rules.idle_timeout && conn.conn.is_open().await {
                return Some(conn);
            }
        }
    }

    fn retries(&self, attempt: &Attempt) -> bool {
        let early = matches!(
            attempt.outcome,
            Outcome::Unsent | Outcome::Lost(Loss::Reset | Loss::Closed)
        );
        self.rules.retry_on.iter().any(|on| match on {
            RetryOn::Refused => attempt.outcome == Outcome::Refused,
            RetryOn::Reused => attempt.reused && early && self.idempotent,
            RetryOn::Reset => early && self.idempotent,
        })
    }

    async fn attempt(
        &self,
        number: u64,
        route: Route,
        keeps: bool,
    ) -> (Attempt, Option<NumberedConn>) {
        let began = Instant::now();
        let instance = route.instance;
        let done = |reused, outcome| Attempt {
            instance,
            began,
            ended: Instant::now(),
            reused,
            outcome,
        };
        let connected = match route.conn {
            Ok(conn) => Ok(conn),
            Err(target) => {
                let id = {
                    let mut routes = self.routes();
                    routes.opened += 1;
                    routes.opened
                };
                connect(&target, self.timeout, id).await
            }
        };
        match connected {
            Err((outcome, _)) => (done(false, outcome), None),
            Ok(mut conn) => {
                let reused = conn.carried > 0;
                let mut bytes = Vec::new();
                self.bytes.write(number, keeps, &mut bytes);
                let (outcome, _, left) = exchange(self.timeout, &mut conn, &bytes).await;
                (done(reused, outcome), (keeps && left).then_some(conn))
            }
        }
    }
}

impl Routes {
    /// The next instance in turn, if possible none of these.
    fn pick(&mut self, tried: &[u32]) -> Option<(usize, Route)> {
        let count = self.instances.len();
        self.turn = self.turn.wrapping_add(1);
        let order = (0..count).map(|step| (self.turn + step) % count);
        let routed: Vec<usize> = order.filter(|at| self.instances[*at].routed).collect();
        let fresh = routed
            .iter()
            .find(|at| !tried.contains(&self.instances[**at].id));
        let at = *fresh.or(routed.first())?;
        let instance = &self.instances[at];
        Some((
            at,
            Route {
                instance: instance.id,
                conn: Err(instance.target.clone()),
            },
        ))
    }
}
