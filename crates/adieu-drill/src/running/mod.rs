//! The program while a check works with it: started, ready, stopped, and killed with all it started when it is dropped.

mod arrival_wait;
mod readiness_error;

pub(crate) use arrival_wait::READS_NO_MORE_AFTER;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::drill::Drill;
use crate::endpoint::Endpoint;
use crate::error::DrillError;
use crate::process::{LaunchMode, Placeholders, Signal, TargetProcess, describe, held_socket};
use crate::raw::{RawConn, WireError};

/// The program while a check works with it. Dropped, all of it is killed.
pub(crate) struct RunningTarget {
    pub(crate) process: TargetProcess,
    pub(crate) endpoint: Endpoint,
    signal: Signal,
}

impl RunningTarget {
    /// Asks it to stop, and says when.
    pub(crate) fn stop(&self) -> Instant {
        self.process.signal(self.signal)
    }

    pub(crate) const fn stop_signal(&self) -> Signal {
        self.signal
    }

    pub(crate) async fn connect(&self) -> Result<RawConn, WireError> {
        RawConn::open(&self.endpoint.target()).await
    }

    /// The last lines it printed, as evidence.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        let lines = self.process.output.last(most);
        lines
            .into_iter()
            .map(|line| format!("it printed: {line}"))
            .collect()
    }
}

pub(crate) fn placeholders(scratch: &Path) -> Result<Placeholders, DrillError> {
    Placeholders::fill_with(scratch)
        .map_err(|error| DrillError::Usage(format!("no free port: {error}")))
}

/// Starts the program in this form and waits until it is ready.
pub(crate) async fn start(
    drill: &Drill,
    scratch: &Path,
    mode: &LaunchMode,
) -> Result<RunningTarget, DrillError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match start_with(drill, scratch, mode, placeholders(scratch)?).await {
            // The port was free when it was looked for, and another process took it first.
            Err(DrillError::Start(start))
                if tries < 3
                    && start
                        .output
                        .iter()
                        .any(|line| line.to_lowercase().contains("in use")) => {}
            other => return other,
        }
    }
}

/// As [`start`], with these ports.
pub(crate) async fn start_with(
    drill: &Drill,
    scratch: &Path,
    mode: &LaunchMode,
    placeholders: Placeholders,
) -> Result<RunningTarget, DrillError> {
    let mut run = launch(drill, scratch, mode, placeholders)?;
    tokio::select! {
        // Whichever comes first ends the waiting; the other one is only looked at.
        biased;
        ended = run.process.ended_within(drill.ready_within) => {
            let reason = match ended {
                Some(ended) => {
                    // What it printed last is in the pipe and read a moment later.
                    sleep(Duration::from_millis(50)).await;
                    let left = run.process.descendants().await;
                    format!(
                        "`{}` ended before it was ready: {}, after {}{}",
                        drill.launch.command.join(" "),
                        describe(ended.status),
                        crate::threshold::show(ended.at - run.process.started),
                        readiness_error::in_background(&left),
                    )
                }
                None => readiness_error::why(drill, &run).await,
            };
            let output = run.process.output.last(20);
            run.process.kill().await;
            Err(DrillError::start(reason, output))
        }
        ready = drill.ready.wait(&run.process, &run.endpoint) => match ready {
            Ok(()) => {
                if matches!(mode, LaunchMode::PidOne | LaunchMode::BelowShell) {
                    run.process.look_below().await.map_err(|error| {
                        DrillError::start(format!("no process below its wrapper: {error}"), Vec::new())
                    })?;
                }
                Ok(run)
            }
            Err(error) => Err(DrillError::Usage(format!("readiness cannot be asked for: {error}"))),
        },
    }
}

pub(crate) fn launch(
    drill: &Drill,
    scratch: &Path,
    mode: &LaunchMode,
    placeholders: Placeholders,
) -> Result<RunningTarget, DrillError> {
    let endpoint = drill.endpoint(&placeholders).map_err(DrillError::Usage)?;
    // Ours is closed when this returns: then nothing but the program listens.
    let takes = drill.takes_socket() && !matches!(mode, LaunchMode::Held(_));
    let handed = takes.then(|| held_socket(endpoint.address));
    let handed = handed.transpose().map_err(|error| {
        DrillError::Usage(format!(
            "{} cannot be listened on: {error}",
            endpoint.address
        ))
    })?;
    let process = TargetProcess::start(
        &drill.launch,
        mode,
        handed.as_ref(),
        placeholders,
        &drill.ready,
        scratch,
    )
    .map_err(|error| {
        let program = drill.launch.command.first().map_or("", String::as_str);
        let reason = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("`{program}` cannot be started: there is no such command")
            }
            _ => format!("`{program}` cannot be started: {error}"),
        };
        DrillError::start(reason, Vec::new())
    })?;
    Ok(RunningTarget {
        process,
        endpoint,
        signal: drill.signal.raw(),
    })
}
