//! What a service and a scope have in common: their times, and where the report goes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::Terms;

use crate::error::Error;
use crate::platform::DetectedPlatform;
use crate::report::writer::PrintReport;
use crate::report::{Notice, NoticeListener, Unhandled};
use crate::util::duration;
use crate::util::printable;

/// After a second signal, cancelling and closing have at most this long.
const SECOND_SIGNAL_LIMIT: Duration = Duration::from_secs(2);

/// Called with every failure that no code of the program has handled.
type FailureHandler = Box<dyn FnMut(&Unhandled) + Send>;

pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) grace: Option<Duration>,
    pub(crate) lame_duck: Option<Duration>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) report_file: Option<PathBuf>,
    pub(crate) print: PrintReport,
    pub(crate) listener: Option<NoticeListener>,
    pub(crate) on_failure: Option<FailureHandler>,
}

impl Settings {
    pub(crate) fn new(name: impl Into<Arc<str>>, print: PrintReport) -> Self {
        Self {
            name: printable::name(&name.into()).into(),
            grace: None,
            lame_duck: None,
            start_timeout: None,
            report_file: None,
            print,
            listener: None,
            on_failure: None,
        }
    }

    pub(crate) fn listen(&mut self, listener: impl FnMut(&Notice) + Send + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// Both that listen, as one. A handler of failures that panics is not called again; the other still is.
    pub(crate) fn take_listener(&mut self) -> Option<NoticeListener> {
        let Some(mut on_failure) = self.on_failure.take() else {
            return self.listener.take();
        };
        let mut listener = self.listener.take();
        let mut is_well = true;
        Some(Box::new(move |notice| {
            if let Some(failed) = Unhandled::of(notice).filter(|_| is_well) {
                is_well = catch_unwind(AssertUnwindSafe(|| on_failure(&failed))).is_ok();
            }
            if let Some(listener) = &mut listener {
                listener(notice);
            }
        }))
    }

    /// Reads the environment, which wins over the code: `ADIEU_GRACE`, `ADIEU_LAME_DUCK`, `ADIEU_REPORT`.
    pub(crate) fn read_environment(&mut self) -> Result<(), Error> {
        self.grace = duration::from_variable("ADIEU_GRACE")
            .map_err(Error::config)?
            .or(self.grace);
        self.lame_duck = duration::from_variable("ADIEU_LAME_DUCK")
            .map_err(Error::config)?
            .or(self.lame_duck);
        if let Some(path) = std::env::var_os("ADIEU_REPORT").filter(|path| !path.is_empty()) {
            self.report_file = Some(path.into());
        }
        Ok(())
    }

    /// The times to stop by, if they make sense.
    pub(crate) fn terms(&self, surroundings: DetectedPlatform) -> Result<Terms, Error> {
        let grace = self
            .grace
            .unwrap_or_else(|| surroundings.default_grace())
            .min(duration::FOREVER);
        if grace.is_zero() {
            return Err(Error::config(
                "a grace of zero leaves no time to close anything: give at least a few milliseconds, or leave it \
                 out for a default that fits the platform"
                    .to_owned(),
            ));
        }
        let lame_duck = self
            .lame_duck
            .unwrap_or_else(|| surroundings.default_lame_duck(grace));
        if lame_duck >= grace {
            return Err(Error::config(format!(
                "a lame duck of {} leaves nothing of a grace of {}: make the grace longer",
                duration::show(lame_duck),
                duration::show(grace)
            )));
        }
        if let Some(path) = &self.report_file {
            crate::report::Report::check_file(path).map_err(|error| {
                Error::config(format!(
                    "the report cannot be written to {}: {error}",
                    path.display()
                ))
            })?;
        }
        Ok(Terms {
            grace,
            lame_duck,
            hurry: grace.min(SECOND_SIGNAL_LIMIT),
        })
    }
}
