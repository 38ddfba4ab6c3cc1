//! The workers as a supervisor runs them: each is started again when it has ended.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::account::Stop;
use crate::drill::Drill;
use crate::error::DrillError;
use crate::process::{LaunchMode, Signal, describe};
use crate::running::{self, RunningTarget};

/// What a worker finds its own name in, to write it into the ledger.
const NAME: &str = "ADIEU_DRILL_WORKER";
/// A worker may end by itself, as after so many jobs; not without end.
const MOST_ENDS: usize = 100;

/// All workers. Dropped, they are killed with everything that they started.
pub(super) struct Workers<'d> {
    drill: &'d Drill,
    scratch: &'d Path,
    slots: Vec<Slot>,
    /// How workers ended that the drill did not stop.
    pub(super) ended_alone: Vec<String>,
}

struct Slot {
    starts: u32,
    running: RunningTarget,
}

/// One stop, as it went.
pub(super) struct Stopped {
    pub(super) stop: Stop,
    pub(super) signal: Instant,
    pub(super) took: Duration,
    /// `exit code 0`.
    pub(super) end: String,
}

impl<'d> Workers<'d> {
    pub(super) async fn start(
        drill: &'d Drill,
        scratch: &'d Path,
        count: u32,
    ) -> Result<Self, DrillError> {
        let mut workers = Self {
            drill,
            scratch,
            slots: Vec::new(),
            ended_alone: Vec::new(),
        };
        for at in 0..count as usize {
            let running = workers.run(at, 1).await?;
            workers.slots.push(Slot { starts: 1, running });
        }
        Ok(workers)
    }

    async fn run(&self, at: usize, start: u32) -> Result<RunningTarget, DrillError> {
        let mut drill = self.drill.clone();
        drill.launch.env.push((NAME.to_owned(), name(at, start)));
        running::start(&drill, self.scratch, &LaunchMode::Plain).await
    }

    /// Starts it again, as a supervisor does.
    pub(super) async fn restart(&mut self, at: usize) -> Result<(), DrillError> {
        let start = self.slots.get(at).map_or(1, |slot| slot.starts + 1);
        let running = self.run(at, start).await?;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Slot {
                starts: start,
                running,
            };
        }
        Ok(())
    }

    /// The first that has ended, and how.
    fn ended(&self) -> Option<(usize, String)> {
        let mut slots = self.slots.iter().enumerate();
        slots.find_map(|(at, slot)| {
            let ended = slot.running.process.ended()?;
            let name = name(at, slot.starts);
            Some((
                at,
                format!("{name} ended by itself: {}", describe(ended.status)),
            ))
        })
    }

    /// Before the first stop a worker has no reason to end.
    pub(super) fn all_live(&self) -> Result<(), DrillError> {
        match self.ended() {
            None => Ok(()),
            Some((at, how)) => Err(DrillError::start(
                format!(
                    "worker {how}, before the first stop; a worker has to wait for jobs until the stop signal comes"
                ),
                self.last_lines(at),
            )),
        }
    }

    /// Starts those again that have ended by themselves.
    pub(super) async fn revive(&mut self) -> Result<(), DrillError> {
        while let Some((at, how)) = self.ended() {
            self.ended_alone.push(how);
            if self.ended_alone.len() > MOST_ENDS {
                return Err(DrillError::start(
                    format!(
                        "workers end by themselves, {MOST_ENDS} times so far, and there is nothing to judge"
                    ),
                    self.last_lines(at),
                ));
            }
            if let Some(slot) = self.slots.get(at) {
                slot.running.process.kill().await;
            }
            self.restart(at).await?;
        }
        Ok(())
    }

    /// What a worker printed last, for an error.
    pub(super) fn last_lines(&self, at: usize) -> Vec<String> {
        let slot = self.slots.get(at);
        slot.map(|slot| slot.running.process.output.last(20))
            .unwrap_or_default()
    }

    /// Sends the stop signal, or SIGKILL to it and all that it started.
    pub(super) async fn stop(&self, at: usize, kill: bool) -> Option<Stopped> {
        let slot = self.slots.get(at)?;
        let process = &slot.running.process;
        let wall = SystemTime::now();
        let signal = match kill {
            true => process.signal_group(Signal::KILL),
            false => slot.running.stop(),
        };
        if !kill && process.ended_within(self.drill.grace).await.is_none() {
            process.kill().await;
            return Some(stopped(slot, at, wall, signal, true, true));
        }
        // Also what it has started in groups of its own or left behind: the next one is to find nothing of it.
        process.kill().await;
        Some(stopped(slot, at, wall, signal, !kill, kill))
    }

    /// Stops all, without a judgement: at the end there is nothing left to do.
    pub(super) async fn end(self) {
        for slot in &self.slots {
            slot.running.stop();
        }
        for slot in &self.slots {
            let _ = slot.running.process.ended_within(self.drill.grace).await;
            slot.running.process.kill().await;
        }
    }
}

fn stopped(
    slot: &Slot,
    at: usize,
    wall: SystemTime,
    signal: Instant,
    asked: bool,
    killed: bool,
) -> Stopped {
    let ended = slot.running.process.ended();
    let took = ended.map_or_else(
        || signal.elapsed(),
        |ended| ended.at.saturating_duration_since(signal),
    );
    let wall = wall
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Stopped {
        stop: Stop {
            worker: name(at, slot.starts),
            killed,
            asked,
            at: wall.as_secs_f64(),
            ended: (wall + took).as_secs_f64(),
        },
        signal,
        took,
        end: ended.map_or_else(String::new, |ended| describe(ended.status)),
    }
}

/// `w2-3`: the second worker, started for the third time.
fn name(at: usize, start: u32) -> String {
    format!("w{}-{start}", at + 1)
}
