//! Who will stop in which phase with what budget, before anything has stopped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::budget::{Budget, Demand};
use super::state::{Moment, Phase, Role, Time};

/// The times a service stops by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The whole budget, from the first request to stop to the end.
    pub grace: Duration,
    /// How long to go on as before after readiness went off.
    pub lame_duck: Duration,
    /// The budget for cancelling and closing once a second signal cut the drain short.
    pub hurry: Duration,
}

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
        let budget = Budget::divide(
            Time::ZERO,
            terms.grace,
            demand(terms, parts.iter().map(|part| part.1)),
        );
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

/// What these parts ask of the budget.
pub(super) fn demand(terms: Terms, roles: impl Iterator<Item = Role>) -> Demand {
    let mut demand = Demand {
        lame_duck: terms.lame_duck,
        ..Demand::default()
    };
    for role in roles {
        match role {
            Role::Resource => demand.resources = true,
            Role::Hook(Moment::Shutdown) => demand.shutdown_hooks = true,
            Role::Work | Role::Hook(_) => {}
        }
    }
    demand
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "plan of the stop, {} in all",
            crate::duration::show(self.grace)
        )?;
        for (phase, slice, parts) in &self.phases {
            write!(
                f,
                "  {:<9}{:>9}",
                phase.name(),
                crate::duration::show(*slice)
            )?;
            for part in parts {
                write!(f, "  {part}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
