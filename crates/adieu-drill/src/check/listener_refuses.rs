//! Once the drain began, whoever comes is sent away at once.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::record;
use crate::report::{Group, Mark, MarkKind, StopTimeline};
use crate::stage::{PATIENCE, Run, Stage};
use crate::threshold::{Threshold, show};
use crate::wire::{Broken, Wire};

pub(crate) const SPEC: Spec = Spec {
    id: "listener-refuses",
    group: Group::Drain,
    quick: true,
    why: "A refused client goes to another replica at once; one that is accepted and left in silence waits for its \
          timeout.",
    how: "While a slow request holds the drain open, new connections are tried every 25 ms. Each must be served, as in \
          a lame duck, or refused. Accepted and silent is a failure; and so is a program that still serves newcomers \
          when the drain is long under way. One that is accepted and then dropped is the matter of fresh-connections.",
    applies: "Always. Without a slow path the drain is as short as the program makes it, and only what is seen of it \
              counts.",
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
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

/// How much longer than an idle stop the drain is held.
const BEYOND: Duration = Duration::from_millis(2_500);
const PACE: Duration = Duration::from_millis(25);
/// A connection that gets no answer for so long is in silence.
const SILENCE: Duration = Duration::from_secs(3);
/// And so is one that is dropped after having waited for so long.
const UNHEARD: Duration = Duration::from_millis(500);

#[derive(Debug)]
enum Met {
    Served,
    Refused,
    Silent,
    Dropped,
}

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let run = stage.start().await?;
    let mut held = Vec::new();
    if let Some(request) = stage.held(&run, BEYOND) {
        held = run.in_flight(&request, 1).await.unwrap_or_default();
    }
    let signal = run.stop();
    // Tries overlap: one that meets silence must not hide what the next one meets.
    let mut tries = tokio::task::JoinSet::new();
    let until = signal + stage.idle_stop() + BEYOND + PATIENCE;
    let mut landed = None;
    let mut holding = held
        .pop()
        .map(|flight| tokio::spawn(flight.land(BEYOND + stage.idle_stop() + PATIENCE)));
    while Instant::now() < until && run.subject.ended().is_none() {
        if let Some(task) = holding.take_if(|task| task.is_finished()) {
            landed = task.await.ok();
            break;
        }
        let place = run.place.clone();
        tries.spawn(async move { (Instant::now(), visit(&place).await) });
        sleep(PACE).await;
    }
    let over = Instant::now();
    let alive = run.subject.ended().is_none();
    let mut met = Vec::new();
    while let Some(Ok(one)) = tries.join_next().await {
        met.push(one);
    }
    met.sort_by_key(|(at, _)| *at);
    let ended = stage.see_out(&run, signal).await;
    Ok(judge(
        stage,
        &run,
        signal,
        over,
        alive,
        &met,
        landed.map(|landed| landed.bar(signal, 0)),
        ended,
    ))
}

async fn visit(place: &crate::place::Place) -> Met {
    if !place.is_http() {
        // Whether anybody reads cannot be asked of a protocol we do not know.
        return match tokio::time::timeout(SILENCE, place.target().connect()).await {
            Ok(Ok(_)) => Met::Served,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => Met::Refused,
            Ok(Err(_)) => Met::Dropped,
            Err(_) => Met::Silent,
        };
    }
    let begun = Instant::now();
    match Wire::ask_within(place, &place.request(), SILENCE).await {
        Ok(_) => Met::Served,
        Err(Broken::Refused) => Met::Refused,
        Err(Broken::TimedOut(_)) => Met::Silent,
        Err(Broken::Unsent(error)) if error.kind() == std::io::ErrorKind::TimedOut => Met::Silent,
        // Left in the queue until the end of the process threw it out.
        Err(_) if begun.elapsed() > UNHEARD => Met::Silent,
        Err(_) => Met::Dropped,
    }
}

#[expect(clippy::too_many_arguments, reason = "one stop, told once")]
fn judge(
    stage: &mut Stage<'_>,
    run: &Run,
    signal: Instant,
    over: Instant,
    alive: bool,
    met: &[(Instant, Met)],
    held: Option<crate::report::Bar>,
    ended: Option<crate::process::Ended>,
) -> Finding {
    let after = |at: &Instant| show(at.saturating_duration_since(signal));
    let refused = met
        .iter()
        .find(|(_, met)| matches!(met, Met::Refused))
        .map(|(at, _)| *at);
    let mut marks = record::marks(signal, stage.drill.signal.name(), ended);
    marks.extend(refused.map(|at| Mark {
        at_us: record::micros(at, signal),
        kind: MarkKind::ListenerClosed,
        label: String::new(),
    }));
    let held_at_all = held.is_some();
    stage.record.draw(record::complete(StopTimeline {
        check: stage.spec.id.to_owned(),
        run: stage.run,
        marks,
        requests: held.into_iter().collect(),
        omitted: 0,
    }));
    let served = met
        .iter()
        .filter(|(_, met)| matches!(met, Met::Served))
        .map(|(at, _)| *at)
        .max();
    let measured = match refused {
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
    let allowed = stage.idle_stop() + stage.threshold.time();
    if let Some(last) =
        served.filter(|last| held_at_all && alive && refused.is_none() && *last - signal > allowed)
    {
        return Finding::late(format!(
            "new connections are still served {} after the signal: the drain never refuses anybody",
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
