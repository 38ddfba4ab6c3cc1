//! The list of mutants that no test can catch, or that none has to: each with a reason.

use serde::Deserialize;

use super::site::Mutant;
use crate::step::Failure;

const TEXT: &str = include_str!("accepted.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    mutant: Vec<Accepted>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accepted {
    /// Under `crates`.
    pub(super) file: String,
    pub(super) function: String,
    pub(super) operator: String,
    pub(super) text: String,
    /// Which of several with the same text; all of them without it.
    nth: Option<usize>,
    pub(super) reason: String,
}

impl Accepted {
    pub(super) fn is(&self, mutant: &Mutant) -> bool {
        mutant.file.strip_prefix("crates/") == Some(&*self.file)
            && mutant.function == self.function
            && mutant.operator == self.operator
            && mutant.text == self.text
            && self.nth.is_none_or(|nth| nth == mutant.nth)
    }
}

pub(super) fn list() -> Result<Vec<Accepted>, Failure> {
    let list: List = toml::from_str(TEXT)
        .map_err(|error| Failure::new(format!("xtask/src/mutants/accepted.toml: {error}")))?;
    if let Some(bare) = list.mutant.iter().find(|it| it.reason.trim().is_empty()) {
        return Err(Failure::new(format!(
            "xtask/src/mutants/accepted.toml: `{}` in {} has no reason",
            bare.text, bare.function
        )));
    }
    Ok(list.mutant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_reason() {
        list().expect("the list can be read");
    }
}
