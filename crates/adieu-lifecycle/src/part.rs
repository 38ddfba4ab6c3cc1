//! What the machine knows of one part.

use super::event::End;
use super::state::{Outcome, Role, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Status {
    Opening,
    Live,
    Closing(Time),
    Settled(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) role: Role,
    pub(super) limit: Option<Time>,
    pub(super) status: Status,
    /// The work's own limit was reached, and its task was notified.
    pub(super) told: bool,
}

impl Part {
    pub(super) fn new(role: Role, limit: Option<Time>) -> Self {
        let status = match role {
            Role::Resource => Status::Opening,
            Role::Work | Role::Hook(_) => Status::Live,
        };
        Self {
            role,
            limit,
            status,
            told: false,
        }
    }

    pub(super) fn is_live(&self, role: Role) -> bool {
        self.role == role && self.status == Status::Live
    }

    /// What its end means; nothing if it has an outcome.
    pub(super) const fn outcome(&self, end: End) -> Option<Outcome> {
        Some(match (self.role, self.status, end) {
            (_, Status::Settled(_), _) => return None,
            (_, _, End::Failed | End::Misused) => Outcome::Failed,
            (Role::Resource, Status::Opening, _) | (_, _, End::Cancelled) => Outcome::Cancelled,
            (Role::Resource, _, End::Done) => Outcome::Closed,
            (_, _, End::Done) => Outcome::Finished,
        })
    }
}
