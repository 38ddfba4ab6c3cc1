//! Which HTTP statuses count as healthy.

use std::str::FromStr;

/// Ranges of HTTP statuses, as in `200-299,304`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statuses(Vec<(u16, u16)>);

impl Statuses {
    /// The statuses that count as healthy by default.
    #[cfg(target_os = "linux")]
    pub(crate) fn good() -> Self {
        Self(vec![(200, 299)])
    }

    pub(crate) fn hold(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&status))
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let status = |text: &str| {
            let number: Option<u16> = text.trim().parse().ok();
            number
                .filter(|number| (100..=599).contains(number))
                .ok_or_else(|| {
                    format!("invalid HTTP status `{text}`: give a number from 100 to 599")
                })
        };
        let range = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            let (from, to) = (status(from)?, status(to)?);
            if from > to {
                return Err(format!(
                    "`{text}` holds nothing: the smaller number comes first"
                ));
            }
            Ok((from, to))
        };
        text.split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_ends() {
        let statuses: Statuses = "200-204, 304".parse().unwrap();
        let held: Vec<u16> = (100..600).filter(|it| statuses.hold(*it)).collect();
        assert_eq!(held, [200, 201, 202, 203, 204, 304]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ok", "299-200", "99", "600", "200,", "-"] {
            assert!(text.parse::<Statuses>().is_err(), "{text}");
        }
    }
}
