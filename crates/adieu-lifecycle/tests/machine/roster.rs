//! The roster of the modelled world: the same word as the real one, and the same small steps.
//!
//! What the real roster does in one atomic operation is one step here; between two steps anything else may
//! happen.

/// How far one piece of work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Life {
    #[default]
    Unborn,
    /// Counted, not yet listed: it cannot be abandoned yet.
    Counted,
    /// It runs.
    Listed,
    /// It runs, and has no waiter any more.
    Abandoned,
    /// Not listed any more, still counted.
    Leaving,
    Gone,
}

impl Life {
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Listed | Self::Abandoned)
    }
}

/// What one change of the word tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Unremarkable,
    Idle,
    Sealed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Roster {
    pub(crate) count: usize,
    watched: bool,
    seals_at_zero: bool,
    closed: bool,
}

impl Roster {
    pub(crate) fn refuses(&self) -> bool {
        self.closed || (self.seals_at_zero && self.count == 0)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the work was let in.
    pub(crate) fn enter(&mut self) -> bool {
        let welcome = !self.refuses();
        self.count += usize::from(welcome);
        welcome
    }

    pub(crate) fn uncount(&mut self) -> Left {
        self.count -= 1;
        self.left()
    }

    pub(crate) fn watch(&mut self) -> Left {
        self.watched = true;
        self.left()
    }

    pub(crate) fn seal_when_idle(&mut self) -> Left {
        self.seals_at_zero = true;
        self.left()
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    fn left(&self) -> Left {
        match self.count {
            0 if self.seals_at_zero => Left::Sealed,
            0 if self.watched => Left::Idle,
            _ => Left::Unremarkable,
        }
    }
}
