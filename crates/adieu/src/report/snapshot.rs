//! What the report needs to know of a service: data, as of one moment.

use std::panic::Location;
use std::sync::Arc;

use adieu_lifecycle::{Role, Time};

use super::notice::ComponentKind;
use super::report::{ComponentReport, LostWork};
use crate::error::Failure;

/// A service at one moment.
pub(crate) struct Snapshot {
    pub(crate) service: Arc<str>,
    pub(crate) grace: Time,
    /// By number.
    pub(crate) components: Vec<ComponentSnapshot>,
    pub(crate) lost: Vec<LostWork>,
    /// Lost, but too many different ones to keep.
    pub(crate) lost_unnamed: u64,
    /// What is in the report and no component of the stop.
    pub(crate) others: Vec<ComponentReport>,
}

/// A component at one moment.
pub(crate) struct ComponentSnapshot {
    pub(crate) name: Arc<str>,
    pub(crate) kind: ComponentKind,
    pub(crate) role: Role,
    pub(crate) location: &'static Location<'static>,
    pub(crate) born: Time,
    pub(crate) restarts: u32,
    pub(crate) failure: Option<Failure>,
    pub(crate) notes: Vec<String>,
}
