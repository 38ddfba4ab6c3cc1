//! What was lost, counted by name and place.

use std::collections::HashMap;

use adieu_lifecycle::Outcome;

use crate::report::LostWork;

/// Work that is not a component of its own and was cut or failed, by name and place; a million lost children of one
/// name are one line with a count.
#[derive(Default)]
pub(crate) struct LostWorkTable {
    lines: HashMap<(String, String, &'static str), LostWork>,
    /// Counted, but too many different ones to keep.
    pub(crate) unnamed: u64,
}

impl LostWorkTable {
    const MOST: usize = 1_000;

    pub(crate) fn add(&mut self, loss: LostWork) {
        let key = (loss.name.clone(), loss.place.clone(), loss.outcome.name());
        let full = self.lines.len() >= Self::MOST;
        match self.lines.get_mut(&key) {
            Some(line) => {
                line.count += loss.count;
                line.age = line.age.max(loss.age);
                line.blocking |= loss.blocking;
            }
            None if full => self.unnamed += loss.count,
            None => drop(self.lines.insert(key, loss)),
        }
    }

    pub(crate) fn any(&self, wanted: impl Fn(Outcome) -> bool) -> bool {
        self.unnamed > 0 || self.lines.values().any(|loss| wanted(loss.outcome))
    }

    /// All lines, in a stable order.
    pub(crate) fn lines(&self) -> Vec<LostWork> {
        let mut lines: Vec<_> = self.lines.values().cloned().collect();
        lines.sort_by(|a, b| (&a.name, &a.place).cmp(&(&b.name, &b.place)));
        lines
    }
}
