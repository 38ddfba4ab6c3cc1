//! One press of Ctrl-C that comes in twice.
//!
//! The kernel signals the whole foreground process group. A wrapper such as `timeout` or `npm` is in it too, and passes the
//! signal on: two halves of one press. Two presses are two, and so are two signals that processes sent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A key press: the kernel.
    Terminal,
    /// The parent process, through `kill`.
    #[cfg_attr(
        all(windows, not(test)),
        expect(dead_code, reason = "an event of a console has no sender")
    )]
    Parent,
    /// Any other process, through `kill`.
    #[cfg_attr(
        all(windows, not(test)),
        expect(dead_code, reason = "an event of a console has no sender")
    )]
    Process,
}

/// A half may come so much later than the other if nothing more is known of its sender.
const PASSED_ON: Duration = Duration::from_millis(20);
/// The parent process may be held up by a busy machine. One that sends an interrupt so soon after a key press passes that on.
const PASSED_ON_BY_PARENT: Duration = Duration::from_millis(500);
/// More first halves than a person can type in that time.
const MOST: usize = 16;

/// The interrupts whose other half may still come.
pub(super) struct KeyPresses(VecDeque<(Sender, Instant)>);

impl KeyPresses {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Whether an interrupt is the second half of a press, and so no signal of its own.
    pub(super) fn is_second_half(&mut self, sender: Sender, now: Instant) -> bool {
        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < PASSED_ON_BY_PARENT);
        let is_other_half = |(first, at): &(Sender, Instant)| {
            longest(*first, sender)
                .is_some_and(|longest| now.saturating_duration_since(*at) < longest)
        };
        match self.0.iter().position(is_other_half) {
            Some(index) => {
                self.0.remove(index);
                true
            }
            None => {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                self.0.push_back((sender, now));
                false
            }
        }
    }
}

/// How long after the first half the second one may come; `None` if they are two signals. Either may be the first: two threads
/// handle the two, and a busy machine may hold up the one that has the signal of the terminal.
const fn longest(first: Sender, second: Sender) -> Option<Duration> {
    match (first, second) {
        (Sender::Terminal, Sender::Parent) | (Sender::Parent, Sender::Terminal) => {
            Some(PASSED_ON_BY_PARENT)
        }
        (Sender::Terminal, Sender::Process) | (Sender::Process, Sender::Terminal) => {
            Some(PASSED_ON)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Sender::{Parent, Process, Terminal};
    use super::*;

    /// Which of these interrupts, each after so many milliseconds, are signals of their own.
    fn own(interrupts: &[(u64, Sender)]) -> Vec<u64> {
        let begun = Instant::now();
        let mut presses = KeyPresses::new();
        let is_own = |(after, sender): &&(u64, Sender)| {
            !presses.is_second_half(*sender, begun + Duration::from_millis(*after))
        };
        interrupts
            .iter()
            .filter(is_own)
            .map(|(after, _)| *after)
            .collect()
    }

    #[test]
    fn a_press_that_is_passed_on_is_one() {
        assert_eq!(own(&[(0, Terminal), (1, Process)]), [0]);
        assert_eq!(own(&[(0, Process), (1, Terminal)]), [0]);
        assert_eq!(own(&[(0, Parent), (499, Terminal)]), [0]);
        assert_eq!(own(&[(0, Terminal), (499, Parent)]), [0]);
    }

    #[test]
    fn what_comes_too_late_to_be_passed_on_is_a_signal_of_its_own() {
        assert_eq!(own(&[(0, Terminal), (20, Process)]), [0, 20]);
        assert_eq!(own(&[(0, Terminal), (500, Parent)]), [0, 500]);
        assert_eq!(own(&[(0, Process), (20, Terminal)]), [0, 20]);
        assert_eq!(own(&[(0, Parent), (500, Terminal)]), [0, 500]);
    }

    #[test]
    fn two_presses_and_two_requests_are_two() {
        for sender in [Terminal, Parent, Process] {
            assert_eq!(own(&[(0, sender), (1, sender)]), [0, 1], "{sender:?}");
        }
        assert_eq!(own(&[(0, Parent), (1, Process)]), [0, 1]);
        // Each of two presses has its own other half, also when the wrapper is late with both.
        assert_eq!(
            own(&[(0, Terminal), (9, Parent), (100, Terminal), (109, Parent)]),
            [0, 100]
        );
        assert_eq!(
            own(&[(0, Terminal), (100, Terminal), (150, Parent), (160, Parent)]),
            [0, 100]
        );
        // A half is used once.
        assert_eq!(own(&[(0, Terminal), (1, Parent), (2, Parent)]), [0, 2]);
    }

    #[test]
    fn a_storm_of_interrupts_is_not_kept() {
        let mut presses = KeyPresses::new();
        let now = Instant::now();
        for _ in 0..1_000 {
            assert!(!presses.is_second_half(Process, now));
        }
        assert_eq!(presses.0.len(), MOST);
    }
}
