//! Hooks: code that runs at one moment of the stop.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;

use super::Ending;
use crate::core::Core;
use crate::error::Error;
use crate::report::PartKind;

/// Registers a hook; it has a name like every part, so that the report can speak of it.
pub(crate) fn hook<F, Fut>(
    core: &Core,
    kind: PartKind,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    code: F,
) -> Result<(), Error>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Ending,
{
    let id = core.register(name, kind, place, None)?;
    core.with_part(id, |part| {
        part.closer = Some(Box::new(move || {
            Box::pin(async move { code().await.into_result() })
        }));
    });
    Ok(())
}
