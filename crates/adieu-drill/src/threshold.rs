//! What a check demands, and how a person changes it.

use std::fmt;
use std::time::Duration;

/// What a check demands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Threshold {
    /// At most so long.
    Time(Duration),
    /// At least so long.
    AtLeast(Duration),
    /// At most so many.
    Count(u64, &'static str),
    /// One of these exit codes.
    Codes(Vec<u8>),
}

impl Threshold {
    /// The same kind of demand with another value.
    pub(crate) fn set(&self, text: &str) -> Result<Self, String> {
        Ok(match self {
            Self::Time(_) => Self::Time(duration(text)?),
            Self::AtLeast(_) => Self::AtLeast(duration(text)?),
            Self::Count(_, of) => {
                let count = text.trim().parse();
                Self::Count(count.map_err(|_| format!("`{text}` is no number"))?, of)
            }
            Self::Codes(_) => {
                let codes = text.split(',').map(|code| code.trim().parse());
                let codes: Result<Vec<u8>, _> = codes.collect();
                Self::Codes(
                    codes.map_err(|_| format!("`{text}` is no list of exit codes as in 0,143"))?,
                )
            }
        })
    }

    pub(crate) fn time(&self) -> Duration {
        match self {
            Self::Time(time) | Self::AtLeast(time) => *time,
            Self::Count(..) | Self::Codes(_) => Duration::ZERO,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Count(count, _) => *count,
            Self::Time(_) | Self::AtLeast(_) | Self::Codes(_) => 0,
        }
    }

    pub(crate) fn accepts(&self, code: i32) -> bool {
        match self {
            Self::Codes(codes) => codes.iter().any(|one| i32::from(*one) == code),
            Self::Time(_) | Self::AtLeast(_) | Self::Count(..) => code == 0,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "at most {}", show(*time)),
            Self::AtLeast(Duration::ZERO) => f.write_str("before"),
            Self::AtLeast(time) => write!(f, "at least {} before", show(*time)),
            Self::Count(0, of) => write!(f, "no {of}"),
            Self::Count(count, of) => write!(f, "at most {count} {of}"),
            Self::Codes(codes) => {
                let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
                write!(f, "exit code {}", codes.join(" or "))
            }
        }
    }
}

/// `1.5s`, `200ms`, `2m`, or plain seconds.
///
/// # Errors
///
/// With a sentence, if it is none of these.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim() {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        _ => f64::NAN,
    };
    let seconds = digits.trim().parse::<f64>().unwrap_or(f64::NAN) * unit;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("`{text}` is no time as in 500ms, 2s or 1m"))
}

/// As a person reads it.
pub(crate) fn show(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1_000.0;
    match ms {
        ..10.0 => format!("{ms:.1} ms"),
        ..1_000.0 => format!("{ms:.0} ms"),
        ..10_000.0 => format!("{:.2} s", ms / 1_000.0),
        _ => format!("{:.1} s", ms / 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration(" 20 ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for nonsense in ["", "s", "-1s", "1h", "NaN", "1e999"] {
            assert!(duration(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_demand_keeps_its_kind() {
        let codes = Threshold::Codes(vec![0]).set("0, 143").expect("codes");
        assert!(codes.accepts(143) && !codes.accepts(1));
        assert_eq!(codes.to_string(), "exit code 0 or 143");
        assert!(Threshold::Count(0, "lost").set("2s").is_err());
        assert_eq!(Threshold::Count(0, "lost").to_string(), "no lost");
    }
}
