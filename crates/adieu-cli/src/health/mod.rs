//! `adieu health`: one question to a service, answered with the exit code.
//!
//! For a HEALTHCHECK in an image without a shell or curl: plain sockets, no runtime, no files.

mod args;
mod ask;
mod body;
mod status;
mod target;

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

pub(crate) use args::HealthArgs;
pub(crate) use ask::{Unhealthy, ask};
pub(crate) use status::Statuses;
pub(crate) use target::Target;

use crate::output::{self, ExitKind};

pub(crate) fn run(args: HealthArgs) -> ExitCode {
    let target = match args.target() {
        Ok(target) => target,
        Err(problem) => {
            output::error(problem);
            return ExitKind::Usage.into();
        }
    };
    let (timeout, statuses) = (args.timeout, args.status);
    let began = Instant::now();
    let (said, answer) = mpsc::channel();
    // A thread of its own, because nothing else bounds the time that resolving a name takes.
    let asking = thread::Builder::new().spawn(move || {
        let _ = said.send(ask(&target, &statuses, timeout));
    });
    let answer = match asking {
        Ok(_) => answer
            .recv_timeout(timeout)
            .unwrap_or(Err(Unhealthy::Late(timeout))),
        Err(error) => Err(Unhealthy::Broken(error.to_string())),
    };
    let ending = match &answer {
        Ok(_) => ExitKind::Clean,
        Err(_) => ExitKind::Findings,
    };
    // Standard output may be closed; the exit code is the answer.
    let _ = match answer {
        Ok(what) => writeln!(
            std::io::stdout(),
            "healthy: {what} in {} ms",
            began.elapsed().as_millis()
        ),
        Err(why) => writeln!(std::io::stderr(), "unhealthy: {why}"),
    };
    ending.into()
}
