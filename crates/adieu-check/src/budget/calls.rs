//! How long calls of libraries take, from the table beside this file.

use std::sync::OnceLock;

use super::bound::Bound;
use crate::callgraph::Length;

const TABLE: &str = include_str!("calls.txt");

/// One line of the table.
#[derive(Debug)]
struct CallLine {
    /// The argument that limits the call, by name and position.
    limit: Option<(&'static str, usize)>,
    default: Bound,
    pattern: &'static str,
    waits_for: &'static str,
}

/// How long a call takes, and what it waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) bound: Bound,
    pub(super) waits_for: &'static str,
}

/// What the table says of a call with these arguments.
pub(super) fn known(path: &str, arguments: &[(Option<Box<str>>, Length)]) -> Option<Known> {
    let line = lines().iter().find(|line| line.pattern == path)?;
    let given = line.limit.and_then(|(name, position)| {
        let named = arguments
            .iter()
            .find(|(keyword, _)| keyword.as_deref() == Some(name));
        let placed = arguments
            .get(position)
            .filter(|(keyword, _)| keyword.is_none());
        named.or(placed)
    });
    Some(Known {
        bound: given.map_or(line.default, |(_, length)| bound(*length)),
        waits_for: line.waits_for,
    })
}

/// A length of the code as a bound.
pub(super) fn bound(length: Length) -> Bound {
    match length {
        Length::Millis(millis) => Bound::millis(millis),
        Length::Unclear => Bound::UNCLEAR,
        Length::Unlimited => Bound::UNLIMITED,
    }
}

fn lines() -> &'static [CallLine] {
    static LINES: OnceLock<Vec<CallLine>> = OnceLock::new();
    LINES.get_or_init(|| TABLE.lines().filter_map(line).collect())
}

fn line(text: &'static str) -> Option<CallLine> {
    let mut words = text.split_whitespace();
    let length = words.next().filter(|word| *word != "#")?;
    let pattern = words.next()?;
    let at = text.find(pattern)? + pattern.len();
    let waits_for = text.get(at..)?.trim();
    let (limit, default) = match length.split_once('=') {
        Some((argument, default)) => {
            let (name, position) = argument.split_once('@')?;
            (Some((name, position.parse().ok()?)), default)
        }
        None => (None, length),
    };
    let default = match default {
        "no-limit" => Bound::UNLIMITED,
        seconds => Bound::seconds(seconds.parse().ok()?),
    };
    Some(CallLine {
        limit,
        default,
        pattern,
        waits_for,
    })
}

#[cfg(test)]
mod tests {
    use super::{TABLE, known, lines};
    use crate::budget::bound::Bound;
    use crate::callgraph::Length;

    #[test]
    fn every_line_is_read() {
        let meant = TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(lines().len(), meant.count());
        assert!(lines().iter().all(|line| !line.waits_for.is_empty()));
    }

    #[test]
    fn an_argument_limits_a_call_by_its_place_or_its_name() {
        let join = |arguments: &[(Option<Box<str>>, Length)]| {
            known("threading.Thread().join", arguments)
                .expect("in the table")
                .bound
        };
        assert_eq!(join(&[]), Bound::UNLIMITED);
        assert_eq!(join(&[(None, Length::Millis(500))]), Bound::millis(500));
        assert_eq!(
            join(&[(Some("timeout".into()), Length::Millis(900))]),
            Bound::millis(900)
        );
        assert_eq!(join(&[(None, Length::Unlimited)]), Bound::UNLIMITED);
        assert_eq!(join(&[(None, Length::Unclear)]), Bound::UNCLEAR);
        assert_eq!(known("nothing.known", &[]), None);
    }
}
