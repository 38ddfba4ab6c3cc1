//! Once the drain began, new connections are refused at once.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::{Spec, Trying};
use crate::capabilities::{Speaks, echo};
use crate::context::CheckContext;
use crate::endpoint::Endpoint;
use crate::finding::Finding;
use crate::in_flight::Finished;
use crate::raw::{ANSWER_TIMEOUT, RawConn, WireError};
use crate::report::{Group, Mark, MarkKind, StopTimeline};
use crate::running::RunningTarget;
use crate::stop_log;
use crate::threshold::{Threshold, show};

pub(crate) const SPEC: Spec = Spec {
    id: "listener-refuses",
    group: Group::Drain,
    quick: true,
    why: "A refused client goes to another replica at once; one that is accepted and left in silence waits for its \
          timeout.",
    how: "While a slow request holds the drain open, new connections are tried every 25 ms. Each must be served, as in \
          a lame duck, or refused. Accepted and silent is a failure: no answer, or no echo, for three seconds longer \
          than it took before the stop; and so is a program that still serves newcomers \
          when the drain has long begun and has refused no connection by the time the slow request is answered. One that is accepted and then dropped is the matter of fresh-connections.",
    applies: "Always. Without a slow path the drain is as short as the program makes it, and only what is seen of it \
              counts; one that has not ended and still serves newcomers refuses none.",
    threshold: |_| Threshold::Time(Duration::from_secs(2)),
    hints: &[
        (
            "any",
            "close the listening socket when the drain begins; do not only stop calling accept(): the kernel goes on \
                 accepting into the queue",
        ),
        (
            "Node",
            "`server.close()` closes the listener; `cluster` workers must each do it",
        ),
        (
            "Go",
            "`server.Shutdown` closes listeners first; a handler that sleeps before calling it must go on serving",
        ),
        (
            "gunicorn",
            "preforked workers share the socket: the arbiter closes it only when all workers are gone",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

/// How much longer than an idle stop the drain is held.
const DRAIN_AFTER_IDLE_STOP: Duration = Duration::from_millis(2_500);
const CONNECT_INTERVAL: Duration = Duration::from_millis(25);
/// A connection that gets no answer for so long, and the time that an answer takes by itself, is in silence.
const UNANSWERED_AFTER: Duration = Duration::from_secs(3);
/// And so is one that is dropped after having waited for so long.
const DROPPED_UNANSWERED_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug)]
enum Met {
    Served,
    Refused,
    Silent,
    Dropped,
}

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let run = cx.start().await?;
    let visitor = Visitor::of(&run.endpoint, cx.capabilities.speaks).await;
    let beyond = DRAIN_AFTER_IDLE_STOP + visitor.normal;
    let held = cx.hold_beside(&run, beyond).await;
    let signal = run.stop();
    // Tries overlap: one that meets silence must not hide what the next one meets.
    let mut tries = tokio::task::JoinSet::new();
    let watched = cx.idle_stop() + beyond + ANSWER_TIMEOUT;
    // With nothing held only its end is waited for, which comes with the grace at the latest.
    let until = if held.is_none() {
        signal + watched.min(cx.drill.grace)
    } else {
        signal + watched
    };
    let holding = held
        .map(|in_flight| tokio::spawn(in_flight.finish(beyond + cx.idle_stop() + ANSWER_TIMEOUT)));
    let is_over = || holding.as_ref().is_some_and(|task| task.is_finished());
    while Instant::now() < until && run.process.ended().is_none() && !is_over() {
        let visitor = visitor.clone();
        tries.spawn(async move { visitor.visit().await });
        sleep(CONNECT_INTERVAL).await;
    }
    let over = Instant::now();
    // Also of a program that ended right after its last answer it is to be known when that came.
    let finished = match holding {
        Some(task) => task.await.ok(),
        None => None,
    };
    let mut met = Vec::new();
    while let Some(Ok(one)) = tries.join_next().await {
        met.push(one);
    }
    met.sort_by_key(|(at, _)| *at);
    let ended = cx.see_out(&run, signal).await;
    Ok(judge(
        cx,
        &run,
        signal,
        over,
        &met,
        finished.as_ref(),
        ended,
    ))
}

/// A client that connects after the signal, and knows how long an answer took before it.
#[derive(Clone)]
struct Visitor {
    endpoint: Endpoint,
    speaks: Speaks,
    normal: Duration,
}

impl Visitor {
    /// Has been there once.
    async fn of(endpoint: &Endpoint, speaks: Speaks) -> Self {
        let mut visitor = Self {
            endpoint: endpoint.clone(),
            speaks,
            // As patient as with anything before a stop.
            normal: ANSWER_TIMEOUT - UNANSWERED_AFTER,
        };
        let begun = Instant::now();
        visitor.normal = match visitor.meet().await {
            Met::Served => begun.elapsed(),
            Met::Refused | Met::Silent | Met::Dropped => Duration::ZERO,
        };
        visitor
    }

    /// What was met, and when: a refusal when it came, anything else when it was begun.
    async fn visit(self) -> (Instant, Met) {
        let begun = Instant::now();
        match self.meet().await {
            Met::Refused => (Instant::now(), Met::Refused),
            met => (begun, met),
        }
    }

    async fn meet(&self) -> Met {
        let begun = Instant::now();
        let silence = UNANSWERED_AFTER + self.normal;
        let broken = match self.speaks {
            Speaks::Http => {
                match RawConn::ask_within(&self.endpoint, &self.endpoint.request(), silence).await {
                    Ok(_) => return Met::Served,
                    Err(broken) => broken,
                }
            }
            Speaks::Echo => match timeout(silence, echo(&self.endpoint)).await {
                Ok(Ok(true)) => return Met::Served,
                // A goodbye.
                Ok(Ok(false)) => return Met::Dropped,
                Ok(Err(error)) => refused_or_lost(error),
                Err(_) => WireError::TimedOut(0),
            },
            // Whether the server reads cannot be seen in a protocol that we do not know.
            Speaks::Other => match timeout(silence, self.endpoint.target().connect()).await {
                Ok(Ok(_)) => return Met::Served,
                Ok(Err(error)) => refused_or_lost(error),
                Err(_) => WireError::TimedOut(0),
            },
        };
        match broken {
            WireError::Refused => Met::Refused,
            WireError::TimedOut(_) => Met::Silent,
            WireError::Unsent(error) if error.kind() == io::ErrorKind::TimedOut => Met::Silent,
            // Left in the queue until the end of the process threw it out.
            _ if begun.elapsed() > DROPPED_UNANSWERED_AFTER + self.normal => Met::Silent,
            _ => Met::Dropped,
        }
    }
}

fn refused_or_lost(error: io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => WireError::Refused,
        _ => WireError::new(error, true, 0),
    }
}

fn judge(
    cx: &mut CheckContext<'_>,
    run: &RunningTarget,
    signal: Instant,
    over: Instant,
    met: &[(Instant, Met)],
    held: Option<&Finished>,
    ended: Option<crate::process::Ended>,
) -> Finding {
    let after = |at: &Instant| show(at.saturating_duration_since(signal));
    let refused = met
        .iter()
        .find(|(_, met)| matches!(met, Met::Refused))
        .map(|(at, _)| *at);
    let mut marks = stop_log::marks(signal, cx.drill.signal.name(), ended);
    marks.extend(refused.map(|at| Mark {
        at_us: stop_log::micros(at, signal),
        kind: MarkKind::ListenerClosed,
        label: String::new(),
    }));
    cx.log.draw(stop_log::complete(StopTimeline {
        check: cx.spec.id.to_owned(),
        run: cx.run,
        marks,
        requests: held.map(|held| held.bar(signal, 0)).into_iter().collect(),
        omitted: 0,
    }));
    let served = met
        .iter()
        .filter(|(_, met)| matches!(met, Met::Served))
        .map(|(at, _)| *at)
        .max();
    // Once the last answer is there the program may be gone, and then the kernel refuses for it. A refusal that did not
    // clearly come before that does not count as one in the drain.
    let refused_in_drain =
        held.is_some_and(|held| refused.is_some_and(|at| at + CONNECT_INTERVAL < held.ended));
    let allowed = cx.idle_stop() + cx.threshold.time();
    // Without a slow request only a program that is still there has a drain to speak of.
    let drains = held.is_some() || ended.is_none();
    let never_refused = refused.is_none() || (held.is_some() && !refused_in_drain);
    let served_late = served.filter(|last| drains && never_refused && *last - signal > allowed);
    let measured = match refused.filter(|_| served_late.is_none()) {
        Some(at) => format!("refused after {}", after(&at)),
        None => "never refused while it ran".to_owned(),
    };
    let silent: Vec<_> = met
        .iter()
        .filter(|(_, met)| matches!(met, Met::Silent))
        .collect();
    if let Some((first, _)) = silent.first() {
        // Whether it was silent is a matter of time.
        return Finding::late(format!(
            "{} of {} new connections were accepted and left in silence",
            silent.len(),
            met.len()
        ))
        .shown([format!(
            "a connection opened {} after the signal was accepted and never got an answer",
            after(first)
        )])
        .measured("accepted and silent");
    }
    if let Some(last) = served_late {
        return Finding::late(format!(
            "new connections are still served {} after the signal: the drain never refuses a connection",
            after(&last)
        ))
        .shown([format!("the program was watched for {}", after(&over))])
        .shown(run.last_lines(3))
        .measured(measured);
    }
    let words = match refused {
        Some(at) => format!(
            "new connections were refused from {} after the signal",
            after(&at)
        ),
        None => "no new connection was left in silence before it ended".to_owned(),
    };
    Finding::passed(words).measured(measured)
}
