//! What registers the components of a service: `App` hands it to the builder of each.

use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::report::ReportBuilder;
use crate::runtime::shared::ServiceShared;

/// The service under construction, as the builders of components know it.
pub(crate) struct Registrar {
    pub(crate) core: Arc<ServiceShared>,
    pub(crate) ledger: Arc<Mutex<ReportBuilder>>,
    misuse: Option<Error>,
}

impl Registrar {
    pub(crate) const fn new(core: Arc<ServiceShared>, ledger: Arc<Mutex<ReportBuilder>>) -> Self {
        Self {
            core,
            ledger,
            misuse: None,
        }
    }

    /// Remembers what cannot be; `setup` then ends with it, whatever it returns.
    pub(crate) fn misuse(&mut self, error: Error) {
        self.misuse.get_or_insert(error);
    }

    pub(crate) fn take_misuse(&mut self) -> Option<Error> {
        self.misuse.take()
    }
}
