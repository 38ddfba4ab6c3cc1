//! The proof: what runs after the signal, as a tree whose leaves have lengths and places.

use std::sync::Arc;

use serde::Serialize;

use super::bound::Bound;
use crate::finding::Place;

/// Where a length comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Origin {
    /// A file says it.
    Said {
        /// The file.
        path: Arc<str>,
        /// Where in it.
        #[serde(flatten)]
        place: Place,
    },
    /// What a program does that is not told otherwise.
    Default {
        /// The program and the version it was looked up in.
        of: String,
        /// Where it can be told.
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<(Arc<str>, u32)>,
    },
    /// It cannot be read off the files.
    Assumed {
        /// What is taken for granted.
        that: String,
        /// The file with the call.
        path: Arc<str>,
        /// Where in it.
        #[serde(flatten)]
        place: Place,
    },
    /// It follows from its parts.
    Parts,
}

/// How the parts of a node make its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// This long.
    Takes(Bound),
    /// One after the other.
    Series(Vec<BudgetNode>),
    /// All at once, or one of several: the longest counts.
    Longest(Vec<BudgetNode>),
    /// The parts in series, cut off at a limit.
    Within(Bound, Vec<BudgetNode>),
    /// The parts in series, again and again; as often as the program likes where no number is known.
    Times(Option<u64>, Vec<BudgetNode>),
}

/// One part of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetNode {
    /// What takes the time.
    pub what: String,
    /// Where its length comes from.
    pub origin: Origin,
    /// What it waits for, where that is more than its name says.
    pub detail: Option<&'static str>,
    /// The setting that changes it, where there is one.
    pub setting: Option<String>,
    /// Its length, or its parts.
    pub shape: Shape,
}

impl BudgetNode {
    pub(crate) fn new(what: impl Into<String>, origin: Origin, shape: Shape) -> BudgetNode {
        BudgetNode {
            what: what.into(),
            origin,
            detail: None,
            setting: None,
            shape,
        }
    }

    /// How long it takes at most.
    #[must_use]
    pub fn bound(&self) -> Bound {
        let series = |parts: &[BudgetNode]| {
            parts
                .iter()
                .fold(Bound::ZERO, |sum, part| sum.then(part.bound()))
        };
        match &self.shape {
            Shape::Takes(bound) => *bound,
            Shape::Series(parts) => series(parts),
            Shape::Longest(parts) => parts
                .iter()
                .fold(Bound::ZERO, |longest, part| longest.beside(part.bound())),
            Shape::Within(limit, parts) => series(parts).within(*limit),
            Shape::Times(Some(count), parts) => series(parts).times(*count),
            Shape::Times(None, parts) => series(parts).some_times(),
        }
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &[BudgetNode] {
        match &self.shape {
            Shape::Takes(_) => &[],
            Shape::Series(parts)
            | Shape::Longest(parts)
            | Shape::Within(_, parts)
            | Shape::Times(_, parts) => parts,
        }
    }

    /// The leaves that leave it without a limit; none where something round them cuts them off.
    #[must_use]
    pub fn unlimited(&self) -> Vec<&BudgetNode> {
        self.leaves(&|bound| !bound.is_limited())
    }

    /// The leaves whose length only running the program would tell.
    #[must_use]
    pub fn unclear(&self) -> Vec<&BudgetNode> {
        self.leaves(&|bound| !bound.is_clear())
    }

    fn leaves(&self, counts: &dyn Fn(Bound) -> bool) -> Vec<&BudgetNode> {
        if !counts(self.bound()) {
            return Vec::new();
        }
        let below: Vec<&BudgetNode> = self
            .parts()
            .iter()
            .flat_map(|part| part.leaves(counts))
            .collect();
        // A loop without a known count is itself what is not clear.
        if below.is_empty() { vec![self] } else { below }
    }

    /// The leaf that takes most of the time, with a setting that could change it.
    #[must_use]
    pub fn longest_setting(&self) -> Option<&BudgetNode> {
        let own = self.setting.is_some().then_some(self);
        let below = self.parts().iter().filter_map(BudgetNode::longest_setting);
        own.into_iter()
            .chain(below)
            .max_by_key(|node| node.bound().at_least())
    }

    /// Everything in it that is taken for granted.
    #[must_use]
    pub fn assumptions(&self) -> Vec<&BudgetNode> {
        let own = matches!(self.origin, Origin::Assumed { .. }).then_some(self);
        let below = self.parts().iter().flat_map(BudgetNode::assumptions);
        own.into_iter().chain(below).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetNode, Origin, Shape};
    use crate::budget::bound::Bound;

    fn node(what: &str, shape: Shape) -> BudgetNode {
        BudgetNode::new(what, Origin::Parts, shape)
    }

    fn takes(what: &str, seconds: u64) -> BudgetNode {
        node(what, Shape::Takes(Bound::seconds(seconds)))
    }

    fn hangs(what: &str) -> BudgetNode {
        node(what, Shape::Takes(Bound::UNLIMITED))
    }

    #[test]
    fn series_add_up_and_of_parallel_ones_the_longest_counts() {
        let together = node("both", Shape::Longest(vec![takes("a", 3), takes("b", 5)]));
        let whole = node("stop", Shape::Series(vec![takes("drain", 10), together]));
        assert_eq!(whole.bound(), Bound::seconds(15));
        let thrice = node(
            "retries",
            Shape::Times(Some(3), vec![takes("try", 4), takes("backoff", 2)]),
        );
        assert_eq!(thrice.bound(), Bound::seconds(18));
        let some = node("loop", Shape::Times(None, vec![takes("poll", 4)]));
        assert_eq!(some.bound().known(), None);
        assert_eq!(some.unclear(), [&some]);
    }

    #[test]
    fn a_limit_cuts_off_what_hangs_inside_it() {
        let inside = node(
            "close",
            Shape::Within(Bound::seconds(5), vec![hangs("pool")]),
        );
        assert_eq!(inside.bound(), Bound::seconds(5));
        assert!(inside.unlimited().is_empty());
        let whole = node("stop", Shape::Series(vec![inside, hangs("drain")]));
        let names: Vec<&str> = whole.unlimited().iter().map(|node| &*node.what).collect();
        assert_eq!(names, ["drain"]);
    }

    #[test]
    fn the_setting_that_takes_most_is_found() {
        let mut short = takes("short", 2);
        short.setting = Some("a".to_owned());
        let mut long = takes("long", 20);
        long.setting = Some("b".to_owned());
        let whole = node(
            "stop",
            Shape::Series(vec![short, takes("other", 90), long.clone()]),
        );
        assert_eq!(whole.longest_setting(), Some(&long));
    }
}
