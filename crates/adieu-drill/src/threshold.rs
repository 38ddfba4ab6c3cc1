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
    /// A threshold of this kind with another value.
    pub(crate) fn set(&self, text: &str) -> Result<Self, String> {
        Ok(match self {
            Self::Time(_) => Self::Time(duration(text)?),
            Self::AtLeast(_) => Self::AtLeast(duration(text)?),
            Self::Count(_, of) => {
                let count = text.trim().parse();
                Self::Count(count.map_err(|_| format!("`{text}` is not a number"))?, of)
            }
            Self::Codes(_) => {
                let codes = text.split(',').map(|code| code.trim().parse());
                let codes: Result<Vec<u8>, _> = codes.collect();
                Self::Codes(
                    codes
                        .map_err(|_| format!("`{text}` is not a list of exit codes as in 0,143"))?,
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

fn duration(text: &str) -> Result<Duration, String> {
    adieu_duration::parse_duration(text).map_err(|invalid| invalid.to_string())
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
    fn a_time_is_read_as_everywhere_else() {
        let demand = Threshold::Time(Duration::ZERO).set("1m30s");
        assert_eq!(demand, Ok(Threshold::Time(Duration::from_secs(90))));
        let refused = demand_error("soon");
        assert!(
            refused.contains("is not a duration: write it like"),
            "{refused}"
        );
    }

    fn demand_error(text: &str) -> String {
        Threshold::Time(Duration::ZERO).set(text).expect_err(text)
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
