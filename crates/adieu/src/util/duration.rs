//! Durations as people write and read them.

use std::time::Duration;

pub use adieu_duration::{InvalidDuration, parse_duration};

/// As good as forever, and far from where the arithmetic of time overflows: a hundred years.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What an environment variable says; `None` if it is not there, or empty. The error names the variable.
pub(crate) fn from_variable(name: &str) -> Result<Option<Duration>, String> {
    let said = std::env::var_os(name).filter(|said| !said.is_empty());
    said.map(|said| parse_duration(&said.to_string_lossy()))
        .transpose()
        .map_err(|invalid| format!("{name}: {invalid}"))
}

/// A duration for a person: three significant places, one unit, or minutes and seconds.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0 => "0 ms".to_owned(),
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6_000.0 => {
            let whole = duration.as_secs();
            match whole % 60 {
                0 => format!("{} min", whole / 60),
                rest => format!("{} min {rest} s", whole / 60),
            }
        }
        s => format!("{:.0} h", s / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_three_places() {
        for (micros, shown) in [
            (0, "0 ms"),
            (40, "40 µs"),
            (4_200, "4.2 ms"),
            (42_000, "42 ms"),
            (1_234_000, "1.23 s"),
            (12_345_000, "12.3 s"),
            (100_000_000, "1 min 40 s"),
            (600_000_000, "10 min"),
        ] {
            assert_eq!(show(Duration::from_micros(micros)), shown);
        }
    }
}
