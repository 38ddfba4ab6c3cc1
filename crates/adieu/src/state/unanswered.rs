//! Saves of one key whose answer was not seen: any of them may be what the store has.

use serde::{Deserialize, Serialize};

/// An owner that saves again and again while its store is away: the last so many are remembered.
const MAX_STAMPS: usize = 64;

/// Their stamps, the last one last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct UnansweredSaves(Vec<u64>);

impl UnansweredSaves {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A save with this stamp is about to be sent. A second try of it has the same.
    pub(super) fn begin(&mut self, stamp: u64) {
        self.0.retain(|known| *known != stamp);
        if self.0.len() >= MAX_STAMPS {
            self.0.remove(0);
        }
        self.0.push(stamp);
    }

    /// Whether this is one of them. 0 is the stamp of a store that keeps none.
    pub(super) fn has(&self, stamp: u64) -> bool {
        stamp != 0 && self.0.contains(&stamp)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// The store has answered: what it has is known.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_their_number_is_bounded() {
        let mut saves = UnansweredSaves::new();
        assert!(!saves.has(0) && saves.last().is_none());
        for stamp in 1..=100 {
            saves.begin(stamp);
            saves.begin(stamp);
        }
        assert_eq!(saves.0.len(), MAX_STAMPS);
        assert!(saves.has(100) && saves.has(37) && !saves.has(36) && !saves.has(0));
        saves.begin(50);
        assert_eq!(saves.last(), Some(50));
        saves.clear();
        assert!(saves.is_empty());
    }
}
