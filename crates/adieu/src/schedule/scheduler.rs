//! Waits for the next run of all, and starts what is due. Between runs nothing wakes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use adieu_core::race;
use tokio::time::Instant;

use super::clock::WallClockTimer;
use super::run;
use super::table::{ScheduleTable, Stage, TableState};
use super::timestamp::Timestamp;
use crate::error::Failure;
use crate::report::Notice;
use crate::runtime::stop::Stop;

/// A clock that is slower than ours by this was set back. Slewing never comes near it.
const CLOCK_STEP_BACK: Duration = Duration::from_secs(1);
/// So many starts in a row, then others have their turn.
const MAX_STARTS_PER_TURN: usize = 256;

/// Ordered by time, then by number: schedules that are due together start in the order of registration.
type Heap = BinaryHeap<Reverse<(Timestamp, u32)>>;

/// Says that nothing is started any more, also when the scheduler is cancelled.
struct OverOnDrop<'table>(&'table ScheduleTable);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().stage = Stage::Over;
    }
}

/// Ends when the stop is requested; what is running then ends by itself, in the drain.
pub(super) async fn run(stop: Stop) {
    let table = Arc::clone(&stop.core);
    let _over = OverOnDrop(table.schedules());
    let core = Arc::clone(&stop.core);
    if stop.until(core.running.wait()).await.is_none()
        || stop.until(remember(&stop)).await.is_none()
    {
        return;
    }
    let (schedules, clock) = (&core.schedules(), core.schedules().clock());
    let timer = WallClockTimer::new();
    let mut seen = (clock.now(), Instant::now());
    schedules.lock().begin(seen.0);
    start_at_once(&stop, seen.0);
    let mut heap = wakes(&schedules.lock());
    loop {
        // Made before the look, so that a retry in between is not missed.
        let changed = schedules.changed.notified();
        let now = clock.now();
        let reckoned = seen.0.plus(seen.1.elapsed());
        if reckoned.since(now) > CLOCK_STEP_BACK {
            schedules.lock().set_back(reckoned.since(now), now);
            heap = wakes(&schedules.lock());
        }
        seen = (now, Instant::now());
        heap.extend(schedules.lock().retries.drain(..).map(Reverse));
        let mut started = 0;
        while let Some(Reverse((wake, _))) = heap.peek()
            && *wake <= now
        {
            let Some(Reverse((_, number))) = heap.pop() else {
                break;
            };
            heap.extend(start_due(&stop, number, now).map(|wake| Reverse((wake, number))));
            started += 1;
            if started % MAX_STARTS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
            if stop.is_requested() {
                return;
            }
        }
        let next = heap.peek().map(|Reverse((wake, _))| *wake);
        // Neither forgets anything when it is dropped.
        let waiting = race(timer.wait(clock, next), changed);
        if stop.until(waiting).await.is_none() {
            return;
        }
    }
}

fn wakes(table: &TableState) -> Heap {
    let wake = |(number, schedule): (u32, &super::table::Schedule)| {
        Some(Reverse((schedule.wake()?, number)))
    };
    (0..).zip(&table.schedules).filter_map(wake).collect()
}

/// Asks the stores for the last runs. One that does not answer is reported, and its schedule begins anew.
async fn remember(stop: &Stop) {
    let schedules = &stop.core.schedules();
    let stores: Vec<_> = (0_usize..)
        .zip(&schedules.lock().schedules)
        .filter_map(|(number, schedule)| Some((number, Arc::clone(schedule.store.as_ref()?))))
        .collect();
    for (number, store) in stores {
        let found = store.last(schedules.clock().now()).await;
        let mut table = schedules.lock();
        let Some(schedule) = table.schedules.get_mut(number) else {
            continue;
        };
        match found {
            Ok(last) => schedule.last = last,
            Err(error) => {
                let (job, failure) = (Arc::clone(&schedule.name), Failure::from_error(&error));
                drop(table);
                stop.core.note(Notice::RunFailed { job, failure });
            }
        }
    }
}

/// Those that also run at the start, unless a run that was missed is about to be made up for.
fn start_at_once(stop: &Stop, now: Timestamp) {
    let mut table = stop.core.schedules().lock();
    let wanted: Vec<u32> = (0..)
        .zip(&mut table.schedules)
        .filter(|(_, schedule)| schedule.at_start && schedule.next.is_none_or(|next| next > now))
        .filter_map(|(number, schedule)| schedule.admit(now).then_some(number))
        .collect();
    drop(table);
    for number in wanted {
        run::launch(stop, number, now);
    }
}

/// Starts what is due of one schedule; gives the time to look at it next.
fn start_due(stop: &Stop, number: u32, now: Timestamp) -> Option<Timestamp> {
    let schedules: &ScheduleTable = stop.core.schedules();
    let mut table = schedules.lock();
    let schedule = table.schedules.get_mut(number as usize)?;
    let mut due = schedule.take_due(now);
    // A look because of a retry: the time to look at the timetable is in the heap already.
    let retried = schedule.retry.take();
    let is_due = !due.is_empty();
    if let Some(retry) = retried.filter(|_| !is_due) {
        due.push(retry);
    }
    due.retain(|moment| schedule.admit(*moment));
    let wake = schedule.wake().filter(|_| is_due || retried.is_none());
    drop(table);
    for moment in due {
        run::launch(stop, number, moment);
    }
    wake
}
