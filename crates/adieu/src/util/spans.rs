//! The span that a task takes along: the one it was spawned in, or that of its component.

use tracing::Span;

/// In one word, because of the memory of every task: most have none.
#[derive(Debug, Default)]
pub(crate) struct TaskSpan(Option<Box<Span>>);

impl TaskSpan {
    /// The span in which this is called.
    #[inline]
    pub(crate) fn current() -> Self {
        if tracing::dispatcher::has_been_set() {
            Self::of(Span::current())
        } else {
            Self::default()
        }
    }

    pub(crate) fn of(span: Span) -> Self {
        Self((!span.is_disabled()).then(|| Box::new(span)))
    }

    /// Runs `code` in this span.
    #[inline]
    pub(crate) fn in_scope<T>(&self, code: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(span) => span.in_scope(code),
            None => code(),
        }
    }
}
