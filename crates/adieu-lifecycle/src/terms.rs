//! The times a service stops by, and what its parts ask of the budget.

use std::time::Duration;

use super::budget::{Budget, Demand};
use super::state::{Moment, Role, Time};

/// The times a service stops by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The whole budget, from the first request to stop to the end.
    pub grace: Duration,
    /// The lame-duck period: how long to go on serving after readiness turned off.
    pub lame_duck: Duration,
    /// The budget for cancelling and closing once a second signal cut the drain short.
    pub hurry: Duration,
}

impl Budget {
    /// The budget of a stop that begins at zero, for a service with parts of these roles.
    #[must_use]
    pub fn of(terms: Terms, roles: impl Iterator<Item = Role>) -> Self {
        Self::divide(Time::ZERO, terms.grace, demand(terms, roles))
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
