//! Less time than was promised: a second signal, or a platform that ends the process soon.

use super::{Machine, State};
use crate::lifecycle::part::Status;
use crate::lifecycle::state::{Moment, Phase, Time};

impl Machine {
    /// Makes do with what is left: the same slices in less time.
    pub(super) fn bound(&mut self, now: Time, left: Time) {
        self.terms.grace = self.terms.grace.min(left);
        self.terms.hurry = self.terms.hurry.min(left);
        // As little of it as a default one takes.
        self.terms.lame_duck = self.terms.lame_duck.min(left / 4);
        if self.state > State::Running {
            self.budget = self.budget.squeezed(now, left);
            self.lame_until = self.lame_until.min(self.budget.limit(Phase::Announce));
            self.squeeze_turns(now);
        }
    }

    /// Cuts the waiting short: new limits, never later than the old ones.
    pub(super) fn hurry(&mut self, now: Time) {
        self.budget = self.budget.hurried(now, self.terms.hurry);
        self.squeeze_turns(now);
    }

    /// Fits the turns of the present phase to its new limit.
    fn squeeze_turns(&mut self, now: Time) {
        let (phase, waiting) = match self.state {
            State::CancelWork | State::CancelHooks | State::CancelSeal => {
                (Phase::Cancel, self.waiting(Moment::Cleanup))
            }
            State::Release => (Phase::Release, self.open_resources()),
            State::Save => (Phase::Save, self.waiting(Moment::Exit)),
            _ => (Phase::Announce, self.waiting(Moment::Shutdown)),
        };
        self.turns = self.turns.squeezed(now, self.budget.limit(phase));
        // Whoever is at it keeps the reserves of those that wait behind.
        let by = self.turns.deadline(waiting);
        for part in self.parts.values_mut() {
            if let Status::Closing(old) = part.status {
                part.status = Status::Closing(old.min(by));
            }
        }
    }
}
