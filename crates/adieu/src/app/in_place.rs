//! `service("name")…run_in_place(setup)`: the stop of a service inside a runtime that the program has made.

use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Cause, Outcome};
use tokio::runtime::Handle;

use super::App;
use super::service::{Service, Started, never_begun};
use crate::error::Error;
use crate::report::Report;
use crate::signal::{AfterEnd, Subscription};
use crate::util::panics;

impl Service {
    /// Runs the service inside the runtime that the program has, as under `#[tokio::main]`, to its end.
    ///
    /// It is all of [`run`](Self::run) but the runtime: signals, `ADIEU_*`, the times of the platform with its lame duck,
    /// systemd, listeners that came with the process, hand-off, watchdog, and the certain end. Signals are caught from
    /// here on and not from the first line of `main`, so let it be the first `await`. One service at a time owns the
    /// process; what lives beside it is a [`scope`](crate::scope()).
    ///
    /// When it has ended, the process is the program's again. If work had to be abandoned, however, the process ends a
    /// second later with the exit code of the report: the runtime would wait for that work forever.
    ///
    /// If the future is dropped, the stop begins and closes what was opened in the background; the certain end is off,
    /// because the program goes on.
    ///
    /// ```
    /// #[tokio::main]
    /// async fn main() -> adieu::Report {
    ///     adieu::service("orders")
    ///         .run_in_place(async |app| {
    ///             app.task("greeter", |_stop| async { println!("hello") });
    ///             Ok(())
    ///         })
    ///         .await
    /// }
    /// ```
    pub async fn run_in_place<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let (name, print) = (Arc::clone(&self.settings.name), self.settings.print);
        match self.begin_in_place(AfterEnd::Ends) {
            Ok(in_place) => {
                let (report, listening) = in_place.run(setup).await;
                listening.for_ever();
                report
            }
            Err(error) => never_begun(&name, print, &error),
        }
    }

    pub(super) fn begin_in_place(self, then: AfterEnd) -> Result<InPlace, Error> {
        let runtime = current_runtime("a service that runs in place")?;
        let (started, listening) = self.prepare()?.begin(&runtime, then)?;
        Ok(InPlace { started, listening })
    }
}

/// A service that has begun in a runtime of the program's own.
pub(super) struct InPlace {
    started: Started,
    listening: Subscription,
}

impl InPlace {
    /// Runs to the end. Signals are heard until what it gives for them is dropped.
    ///
    /// Dropped half-way, the stop goes on in the background.
    pub(super) async fn run<F>(self, setup: F) -> (Report, Subscription)
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let Self { started, listening } = self;
        let mut guard = ReleaseOnDrop {
            started: &started,
            releases: true,
        };
        started.live(setup).await;
        #[cfg(feature = "admin")]
        started.core.admin().closed().await;
        let report = started
            .writer
            .report()
            .unwrap_or_else(|| Report::missing(&started.core.name));
        let parts = report.parts().iter().map(|part| part.outcome);
        let lost = report.lost().iter().map(|loss| loss.outcome);
        guard.releases = !parts.chain(lost).any(|it| it == Outcome::Abandoned);
        drop(guard);
        (report, listening)
    }
}

/// Begins the stop if it did not come, and gives the process back to the program.
struct ReleaseOnDrop<'started> {
    started: &'started Started,
    releases: bool,
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        let why = "the service's future was dropped".into();
        // Has no effect after the end.
        self.started.core.request_stop(Cause::Requested(why));
        if self.releases {
            self.started.hard_exit.stop();
        }
    }
}

/// The runtime around the caller, if `who` can live in it.
pub(super) fn current_runtime(who: &str) -> Result<Handle, Error> {
    let runtime = Handle::try_current().map_err(|_| {
        Error::config(format!(
            "{who} lives inside a tokio runtime, and there is none here: use `adieu::service(name).run(setup)`"
        ))
    })?;
    // There is no other way to ask.
    if panics::quietly(|| drop(tokio::time::sleep(Duration::ZERO))).is_err() {
        return Err(Error::config(format!(
            "{who} needs the runtime's timers, and they are disabled here: call `enable_time` or `enable_all` on the \
             runtime's builder"
        )));
    }
    Ok(runtime)
}
