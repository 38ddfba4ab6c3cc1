//! The features whose state has to be there from the start of a service, in the order in which their hooks are called.

use crate::runtime::shared::ServiceShared;

/// Others attach themselves when they are first used.
pub(crate) fn attach(core: &ServiceShared) {
    // Its lines stand first in the status.
    core.reloads();
    // A stop that comes first forbids the hand-off.
    #[cfg(all(unix, feature = "net"))]
    core.handoff();
}
