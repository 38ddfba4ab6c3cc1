//! Hooks: code that runs at one moment of the stop.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use super::{Closer, Ending};
use crate::error::Error;
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;

/// A hook about to be registered: it is at the end of the statement that makes it.
///
/// Made by [`App::on_shutdown`](crate::App::on_shutdown), [`App::on_cleanup`](crate::App::on_cleanup) and
/// [`App::on_exit`](crate::App::on_exit). It has a name like every part, so
/// that the report can speak of it.
pub struct HookBuilder<'app> {
    app: &'app mut Registrar,
    kind: ComponentKind,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    limit: Option<Duration>,
    code: Option<Closer>,
}

impl<'app> HookBuilder<'app> {
    pub(crate) fn new<F, Fut>(
        app: &'app mut Registrar,
        kind: ComponentKind,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        code: F,
    ) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let code: Closer = Box::new(move || Box::pin(async move { code().await.into_result() }));
        Self {
            app,
            kind,
            name,
            place,
            limit: None,
            code: Some(code),
        }
    }

    /// The longest it may take, inside what its phase has for it. Then its future is dropped.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn register(&mut self, code: Closer) -> Result<(), Error> {
        let name = std::mem::take(&mut self.name);
        let core = &self.app.core;
        let id = core.register(name, self.kind, self.place, self.limit)?;
        core.with_part(id, |part| part.closer = Some(code));
        Ok(())
    }
}

impl Drop for HookBuilder<'_> {
    fn drop(&mut self) {
        if let Some(code) = self.code.take()
            && let Err(error) = self.register(code)
        {
            self.app.misuse(error);
        }
    }
}
