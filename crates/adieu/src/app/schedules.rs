//! Jobs by the clock, as `setup` registers them.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use crate::app::App;
use crate::runtime::ending::Ending;
use crate::schedule::{Run, ScheduleBuilder, When};

impl App {
    /// Runs a job at an interval, from one interval after the start on. Feature `schedule`.
    ///
    /// Runs are tracked work: when the service stops, no new one starts, and those that are running finish in the drain.
    /// A run that fails or panics is logged and counted; the next takes place all the same.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn sweep() -> std::io::Result<()> { Ok(()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.every("sweep", Duration::from_secs(60), |_run| sweep()).at_start();
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn every<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        interval: Duration,
        job: F,
    ) -> ScheduleBuilder<'_>
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let (when, location) = (When::Every(interval), Location::caller());
        ScheduleBuilder::new(&mut self.registrar, name.into(), location, when, job)
    }

    /// Runs a job by a cron line in a time zone: minute, hour, day of month, month, day of week; with six fields the
    /// first is the second. Feature `schedule`.
    ///
    /// When the clocks change, a run at a fixed time takes place once: in spring at the first moment after the gap, in
    /// autumn the first time. One at an interval (`*/15`) takes place at every one there is.
    ///
    /// ```
    /// # async fn digest(_run: adieu::schedule::Run) -> std::io::Result<()> { Ok(()) }
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// app.cron("digest", "0 6 * * *", "Europe/Berlin", |run| digest(run));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn cron<F, Fut>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        line: impl Into<Cow<'static, str>>,
        zone: impl Into<Cow<'static, str>>,
        job: F,
    ) -> ScheduleBuilder<'_>
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let (line, zone) = (line.into(), zone.into());
        let (when, location) = (When::Cron { line, zone }, Location::caller());
        ScheduleBuilder::new(&mut self.registrar, name.into(), location, when, job)
    }
}
