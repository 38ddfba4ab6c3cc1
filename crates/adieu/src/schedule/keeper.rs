//! Waits for the next run of all, and starts what is due. Between runs nothing wakes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::agenda::{Agenda, Plan};
use super::clock::Alarm;
use super::run;
use super::tick::Tick;
use crate::error::Failure;
use crate::report::Notice;
use crate::stop::Stop;

/// A clock that is slower than ours by this was set back. Slewing never comes near it.
const SET_BACK: Duration = Duration::from_secs(1);
/// So many starts in a row, then others have their turn.
const IN_A_ROW: usize = 256;

/// Ordered by time, then by number: schedules that are due together start in the order of registration.
type Heap = BinaryHeap<Reverse<(Tick, u32)>>;

/// Ends when the stop is requested; what is running then ends by itself, in the drain.
pub(super) async fn keep(stop: Stop) {
    let core = Arc::clone(&stop.core);
    if stop.until(core.running.pass()).await.is_none()
        || stop.until(remember(&stop)).await.is_none()
    {
        return;
    }
    let (agenda, clock) = (&core.agenda, core.agenda.clock());
    let alarm = Alarm::new();
    let mut seen = (clock.now(), Instant::now());
    agenda.plan().begin(seen.0);
    start_at_once(&stop, seen.0);
    let mut heap = wakes(&agenda.plan());
    loop {
        // Made before the look, so that a retry in between is not missed.
        let changed = agenda.changed.notified();
        let now = clock.now();
        let reckoned = seen.0.plus(seen.1.elapsed());
        if reckoned.since(now) > SET_BACK {
            agenda.plan().set_back(reckoned.since(now), now);
            heap = wakes(&agenda.plan());
        }
        seen = (now, Instant::now());
        heap.extend(agenda.plan().retries.drain(..).map(Reverse));
        let mut started = 0;
        while let Some(Reverse((wake, _))) = heap.peek()
            && *wake <= now
        {
            let Some(Reverse((_, number))) = heap.pop() else {
                break;
            };
            heap.extend(start_due(&stop, number, now).map(|wake| Reverse((wake, number))));
            started += 1;
            if started % IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
            if stop.is_requested() {
                return;
            }
        }
        let next = heap.peek().map(|Reverse((wake, _))| *wake);
        let waiting = either(alarm.wait(clock, next), changed);
        if stop.until(waiting).await.is_none() {
            return;
        }
    }
}

/// The first of two. Both forget nothing when they are dropped.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}

fn wakes(plan: &Plan) -> Heap {
    let wake = |(number, line): (u32, &super::agenda::Line)| Some(Reverse((line.wake()?, number)));
    (0..).zip(&plan.lines).filter_map(wake).collect()
}

/// Asks the stores for the last runs. One that does not answer is told of, and its schedule begins anew.
async fn remember(stop: &Stop) {
    let agenda = &stop.core.agenda;
    let memories: Vec<_> = (0_usize..)
        .zip(&agenda.plan().lines)
        .filter_map(|(number, line)| Some((number, Arc::clone(line.memory.as_ref()?))))
        .collect();
    for (number, memory) in memories {
        let found = memory.last().await;
        let mut plan = agenda.plan();
        let Some(line) = plan.lines.get_mut(number) else {
            continue;
        };
        match found {
            Ok(last) => line.last = last,
            Err(error) => {
                let (job, failure) = (Arc::clone(&line.name), Failure::from_error(&error));
                drop(plan);
                stop.core.note(Notice::RunFailed { job, failure });
            }
        }
    }
}

/// Those that also run at the start, unless a run that was missed is about to be made up for.
fn start_at_once(stop: &Stop, now: Tick) {
    let mut plan = stop.core.agenda.plan();
    let wanted: Vec<u32> = (0..)
        .zip(&mut plan.lines)
        .filter(|(_, line)| line.at_start && line.next.is_none_or(|next| next > now))
        .filter_map(|(number, line)| line.admit(now).then_some(number))
        .collect();
    drop(plan);
    for number in wanted {
        run::launch(stop, number, now);
    }
}

/// Starts what is due of one schedule; gives the time to look at it next.
fn start_due(stop: &Stop, number: u32, now: Tick) -> Option<Tick> {
    let agenda: &Agenda = &stop.core.agenda;
    let mut plan = agenda.plan();
    let line = plan.lines.get_mut(number as usize)?;
    let mut due = line.take_due(now);
    // A look because of a retry: the time to look at the timetable is in the heap already.
    let retried = line.retry.take();
    let is_due = !due.is_empty();
    if let Some(retry) = retried.filter(|_| !is_due) {
        due.push(retry);
    }
    due.retain(|tick| line.admit(*tick));
    let wake = line.wake().filter(|_| is_due || retried.is_none());
    drop(plan);
    for tick in due {
        run::launch(stop, number, tick);
    }
    wake
}
