//! Reads durations as people write them.
//!
//! One grammar for the library adieu, its command and its drill, so that what one of them takes the others take too.

use std::fmt;
use std::time::Duration;

/// Reads `250ms`, `2s`, `1.5s`, `1m30s`, `1h`; a bare number is seconds.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(adieu_duration::parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(
///     adieu_duration::parse_duration("ten").unwrap_err().to_string(),
///     "`ten` is not a duration: write it like `200ms`, `2s` or `1m30s`",
/// );
/// ```
///
/// # Errors
/// Says what was read and how to write it.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration {
        text: text.to_owned(),
    };
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let seconds = match unit.trim() {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "" if total.is_zero() && after.is_empty() => 1.0,
            _ => return Err(invalid()),
        };
        let piece = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(piece).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(total)
}

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDuration {
    text: String,
}

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        let positive = text.trim().strip_prefix('-').map(parse_duration);
        if let Some(Ok(_)) = positive {
            return write!(f, "`{text}` is not a duration: it cannot be negative");
        }
        write!(
            f,
            "`{text}` is not a duration: write it like `200ms`, `2s` or `1m30s`"
        )
    }
}

impl std::error::Error for InvalidDuration {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("200ms", 200),
            ("2s", 2_000),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("25", 25_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "s", "-1s", "1x", "1s2", "1.2.3s", "1e99h", "∞"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let said = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(
            said("-1s"),
            "`-1s` is not a duration: it cannot be negative"
        );
        assert!(said("-x").contains("is not a duration"));
    }
}
