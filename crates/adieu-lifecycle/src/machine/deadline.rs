//! Less time than was promised: a second signal, or a platform that ends the process soon.

use super::{Machine, State};
use crate::part::Status;
use crate::state::{Moment, Phase, Time};
use crate::terms::demand;

impl Machine {
    /// Makes do with what is left, whether the stop is to begin or has begun.
    pub(super) fn bound(&mut self, now: Time, left: Time) {
        self.terms.grace = self.terms.grace.min(left);
        self.terms.hurry = self.terms.hurry.min(left);
        // As little of it as a default one takes.
        self.terms.lame_duck = self.terms.lame_duck.min(left / 4);
        if self.state > State::Running && now + left < self.budget.end() {
            let mut demand = demand(self.terms, self.parts.values().map(|part| part.role));
            demand.resources |= self.setup_running;
            demand.lame_duck = self.lame_until.saturating_sub(now).min(left / 4);
            self.budget = self.budget.divided_anew(now, left, demand);
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
        // The part whose turn it is leaves the reserves to the parts behind it.
        let by = self.turns.deadline(waiting);
        for part in self.parts.values_mut() {
            if let Status::Closing(old) = part.status {
                part.status = Status::Closing(old.min(by));
            }
        }
    }
}
