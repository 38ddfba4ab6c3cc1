//! Who will stop in which phase with what budget, before anything has stopped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Budget, Phase, Role, Terms, Time};

use crate::util::duration::show;

/// The plan of a stop: every phase with its guaranteed slice and the parts that end in it, in order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = adieu::scope("orders")
///     .run(async |app| {
///         app.resource("postgres", async { Ok::<_, std::io::Error>(()) }).await?;
///         app.task("importer", |stop| async move { stop.requested().await });
///         println!("{}", app.plan());
///         app.shutdown_handle().stop("that is all");
///         Ok(())
///     })
///     .await;
/// assert_eq!(report.exit_code(), 0);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The whole budget.
    pub grace: Duration,
    /// The phases in order: phase, guaranteed slice, names of the parts in the order of their end.
    pub phases: Vec<(Phase, Duration, Vec<Arc<str>>)>,
}

impl Plan {
    pub(crate) fn new(terms: Terms, parts: &[(Arc<str>, Role)]) -> Self {
        let budget = Budget::of(terms, parts.iter().map(|part| part.1));
        let phases = Phase::ALL
            .into_iter()
            .map(|phase| {
                let mut names: Vec<_> = parts
                    .iter()
                    .filter(|part| part.1.phase() == phase)
                    .map(|part| Arc::clone(&part.0))
                    .collect();
                if phase == Phase::Release {
                    names.reverse();
                }
                (phase, budget.slice(phase, Time::ZERO), names)
            })
            .collect();
        Self {
            grace: terms.grace,
            phases,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan of the stop, {} in all", show(self.grace))?;
        for (phase, slice, parts) in &self.phases {
            write!(f, "  {:<9}{:>9}", phase.name(), show(*slice))?;
            for part in parts {
                write!(f, "  {part}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
