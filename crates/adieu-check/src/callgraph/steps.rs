//! What a function does that takes time, in the order in which it does so: as much as a stop's budget needs of it.

use crate::finding::Place;

/// The most time something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Millis(u64),
    /// Only running the program would tell.
    Unclear,
    /// As long as what it waits for.
    Unlimited,
}

/// One thing that takes time, or leads to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Takes this long at most.
    Takes {
        length: Length,
        what: Box<str>,
        place: Place,
    },
    /// Calls that: a function of the project, or of a library.
    Calls {
        path: Box<str>,
        /// As it is written.
        what: Box<str>,
        /// The limit it is given among its arguments, in their order and by their names.
        limits: Vec<(Option<Box<str>>, Length)>,
        awaited: bool,
        place: Place,
    },
    /// Is cut off at a limit.
    Within {
        limit: Length,
        what: Box<str>,
        place: Place,
        inner: Vec<StopStep>,
    },
    /// A loop, with the number of its rounds where that is written down.
    Times {
        count: Option<u64>,
        /// Ends by itself: nothing says that it waits for what may never come.
        is_limited: bool,
        what: Box<str>,
        place: Place,
        inner: Vec<StopStep>,
    },
    /// One of these.
    OneOf(Vec<Vec<StopStep>>),
    /// All of these at once.
    Together {
        place: Place,
        parts: Vec<Vec<StopStep>>,
    },
    /// Here the program runs until it is stopped: the `yield` of a lifespan.
    Runs,
}

/// What follows where the program runs; nothing if it does not run there.
pub(crate) fn after_run(steps: &[StopStep]) -> Option<Vec<StopStep>> {
    let (at, inside) = steps
        .iter()
        .enumerate()
        .find_map(|(at, step)| Some((at, inside(step)?)))?;
    let rest = steps[at + 1..].iter().cloned();
    Some(inside.into_iter().chain(rest).collect())
}

fn inside(step: &StopStep) -> Option<Vec<StopStep>> {
    match step {
        StopStep::Runs => Some(Vec::new()),
        // The limit of a block counts from its beginning: it is over when the program is stopped.
        StopStep::Within { inner, .. } | StopStep::Times { inner, .. } => after_run(inner),
        StopStep::OneOf(ways) => {
            let ways: Vec<Vec<StopStep>> = ways.iter().filter_map(|way| after_run(way)).collect();
            match ways.len() {
                0 => None,
                _ => Some(vec![StopStep::OneOf(ways)]),
            }
        }
        StopStep::Together { parts, .. } => parts.iter().find_map(|part| after_run(part)),
        StopStep::Takes { .. } | StopStep::Calls { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Length, StopStep, after_run};
    use crate::finding::Place;

    fn takes(seconds: u64) -> StopStep {
        StopStep::Takes {
            length: Length::Millis(seconds * 1_000),
            what: "sleep".into(),
            place: Place::TOP,
        }
    }

    #[test]
    fn only_what_follows_the_run_belongs_to_the_stop() {
        assert_eq!(after_run(&[takes(1)]), None);
        assert_eq!(
            after_run(&[takes(1), StopStep::Runs, takes(2)]),
            Some(vec![takes(2)])
        );
        let either = StopStep::OneOf(vec![vec![takes(1)], vec![StopStep::Runs, takes(2)]]);
        assert_eq!(
            after_run(&[either, takes(3)]),
            Some(vec![StopStep::OneOf(vec![vec![takes(2)]]), takes(3)])
        );
        let block = StopStep::Within {
            limit: Length::Millis(5),
            what: "timeout".into(),
            place: Place::TOP,
            inner: vec![StopStep::Runs, takes(2)],
        };
        assert_eq!(after_run(&[block]), Some(vec![takes(2)]));
    }
}
