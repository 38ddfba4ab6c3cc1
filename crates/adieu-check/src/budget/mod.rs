//! The worst-case shutdown time: what runs after SIGTERM, added up, against what each platform waits.
//!
//! [`Bound`] is the arithmetic, [`BudgetNode`] the proof and [`Verdict`] the comparison: all three only compute. `assemble` finds
//! what goes in: the deployment files say what is started, the table of servers says what these do while they stop, and the
//! code says what it adds.

mod assemble;
mod bound;
mod calls;
mod rules;
mod servers;
mod tree;
mod verdict;

use std::sync::Arc;

pub(crate) use assemble::Assembler;
pub use bound::Bound;
pub(crate) use rules::findings;
pub use tree::{BudgetNode, Origin, Shape};
pub use verdict::{Patience, Verdict};
pub(crate) use verdict::{advice, said};

/// The stop of one program on one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// The program as the deployment file calls it.
    pub name: String,
    /// The file that starts it.
    pub path: Arc<str>,
    /// The line that does.
    pub line: u32,
    /// The command.
    pub command: String,
    /// What runs after the signal, and before it in the same time.
    pub stop: BudgetNode,
    /// How long the platform waits; nothing where no file says where the program runs.
    pub patience: Option<Patience>,
}

impl Budget {
    /// What comes of it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let patience = self.patience.as_ref().map(|patience| patience.bound);
        Verdict::of(self.stop.bound(), patience)
    }

    /// The number to change, in one line.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        advice(&self.stop, self.patience.as_ref())
    }

    /// What comes of it, in words.
    #[must_use]
    pub fn said(&self) -> String {
        said(self.verdict(), self.stop.bound(), self.patience.as_ref())
    }
}
