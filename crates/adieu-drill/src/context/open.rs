//! The program, started for a check, and the path that the check is about.

use crate::context::CheckContext;
use crate::endpoint::{Endpoint, without_query};
use crate::error::DrillError;
use crate::finding::Finding;
use crate::raw::{ANSWER_TIMEOUT, RawConn};
use crate::running::RunningTarget;

/// The program, started, and one of its paths.
pub(crate) struct Opened<'p> {
    pub(crate) run: RunningTarget,
    pub(crate) endpoint: Endpoint,
    /// As it may be shown.
    pub(crate) path: &'p str,
}

impl CheckContext<'_> {
    /// Starts the program, with this path of it.
    pub(crate) async fn open<'p>(&self, path: &'p str) -> Result<Opened<'p>, DrillError> {
        let run = self.start().await?;
        let filled = run.process.placeholders.fill(path);
        let endpoint = run.endpoint.at(&filled).map_err(DrillError::Usage)?;
        let path = without_query(path);
        Ok(Opened {
            run,
            endpoint,
            path,
        })
    }

    /// Starts the program, with a probe that says yes before any stop; or what to say of one that does not.
    pub(crate) async fn open_probe<'p>(
        &self,
        path: &'p str,
    ) -> Result<Result<Opened<'p>, Finding>, DrillError> {
        let opened = self.open(path).await?;
        let (probe, path) = (&opened.endpoint, opened.path);
        let asked = RawConn::ask_within(probe, &probe.request(), ANSWER_TIMEOUT).await;
        Ok(match asked {
            Ok(answer) if (200..300).contains(&answer.head.status) => Ok(opened),
            Ok(answer) => {
                let status = answer.head.status;
                let words = format!("{path} answers {status} before any stop");
                Err(Finding::skipped(words))
            }
            Err(broken) => Err(Finding::skipped(format!(
                "{path} cannot be asked: {broken}"
            ))),
        })
    }
}
