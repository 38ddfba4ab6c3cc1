//! Which request is drawn in which line.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use crate::report::Bar;

/// Up to this many connections, each keeps a line of its own, and a gap in it is a pause of that client.
const OWN_LINES: usize = 256;

/// A line for each of the bars, which are in order of their start, so that no two in one line overlap.
pub(super) fn lanes(bars: &[&Bar]) -> Vec<u32> {
    let connections: BTreeSet<u32> = bars.iter().map(|bar| bar.connection).collect();
    let own = connections.len() <= OWN_LINES;
    let mut free: HashMap<u32, BTreeSet<u32>> = HashMap::new();
    let mut last: HashMap<u32, u32> = HashMap::new();
    let mut busy: BinaryHeap<Reverse<(i64, u32, u32)>> = BinaryHeap::new();
    let mut next = 0;
    bars.iter()
        .map(|bar| {
            while let Some(Reverse((end, lane, owner))) = busy.peek().copied() {
                if end > bar.start_us {
                    break;
                }
                busy.pop();
                free.entry(owner).or_default().insert(lane);
            }
            let owner = if own { bar.connection } else { 0 };
            let free = free.entry(owner).or_default();
            // In a common pool a client stays where it was, so that the eye can follow it.
            let again = last.get(&bar.connection).copied();
            let lane = again
                .filter(|lane| !own && free.contains(lane))
                .or_else(|| free.first().copied())
                .unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
            free.remove(&lane);
            last.insert(bar.connection, lane);
            // One that takes no time still takes its line for the moment.
            busy.push(Reverse((bar.end_us.max(bar.start_us + 1), lane, owner)));
            lane
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Fate;

    fn bar(start_us: i64, end_us: i64, connection: u32) -> Bar {
        Bar {
            start_us,
            end_us,
            connection,
            label: String::new(),
            fate: Fate::Answered,
        }
    }

    fn lanes_of(bars: &[Bar]) -> Vec<u32> {
        lanes(&bars.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_connection_keeps_its_line() {
        let bars = [bar(0, 10, 7), bar(2, 30, 9), bar(12, 20, 7), bar(40, 50, 9)];
        assert_eq!(lanes_of(&bars), [0, 1, 0, 1]);
    }

    #[test]
    fn requests_at_once_on_one_connection_have_lines_of_their_own() {
        let bars = [bar(0, 10, 1), bar(1, 9, 1), bar(2, 8, 1), bar(10, 11, 1)];
        assert_eq!(lanes_of(&bars), [0, 1, 2, 0]);
    }

    #[test]
    fn a_connection_for_each_request_needs_no_line_for_each() {
        let bars: Vec<Bar> = (0..10_000)
            .map(|at| bar(i64::from(at) * 10, i64::from(at) * 10 + 25, at))
            .collect();
        let most = lanes_of(&bars).into_iter().max();
        assert_eq!(most, Some(2));
    }

    #[test]
    fn no_two_in_one_line_overlap() {
        let bars: Vec<Bar> = (0_u32..2_000)
            .map(|at| {
                let start = i64::from(at) * 3;
                bar(start, start + i64::from(at * 7919 % 97), at * 31 % 300)
            })
            .collect();
        let lanes = lanes_of(&bars);
        let mut ends: HashMap<u32, i64> = HashMap::new();
        for (bar, lane) in bars.iter().zip(lanes) {
            let end = ends.insert(lane, bar.end_us).unwrap_or(i64::MIN);
            assert!(end <= bar.start_us, "{bar:?} in line {lane} before {end}");
        }
    }
}
