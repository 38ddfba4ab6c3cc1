//! Which rules are on.

use super::{Code, RULES, Rule};

/// A set of rules, from codes, names and prefixes: `ADP`, `ADP1`, `ADP101`, `blocking-sleep`, `ALL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    on: Vec<bool>,
}

/// Words in a selection that are no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRules(pub Vec<String>);

impl Default for Selection {
    fn default() -> Selection {
        Selection::new(&[], &[], false).0
    }
}

impl Selection {
    /// All rules but `ignore`, or only `select` but `ignore` when it names any. Unknown rules are
    /// returned and left out; the rest of the selection holds.
    #[must_use]
    ///
    /// Without `preview` a new rule runs only where `select` names its whole code or its name.
    pub fn new(select: &[String], ignore: &[String], preview: bool) -> (Selection, UnknownRules) {
        let mut unknown = Vec::new();
        let may_run = |rule: &Rule| preview || !rule.preview;
        let mut on: Vec<bool> = RULES
            .iter()
            .map(|rule| select.is_empty() && may_run(rule))
            .collect();
        for (words, value) in [(select, true), (ignore, false)] {
            for word in words
                .iter()
                .map(|word| word.trim())
                .filter(|word| !word.is_empty())
            {
                let mut hit = false;
                for (index, rule) in RULES.iter().enumerate() {
                    if matches(rule, word) {
                        on[index] = value && (may_run(rule) || is_whole(rule, word));
                        hit = true;
                    }
                }
                if !hit {
                    unknown.push(word.to_owned());
                }
            }
        }
        // That a file could not be looked at is said whatever is selected.
        for (index, rule) in RULES.iter().enumerate() {
            on[index] |= rule.code.as_str().starts_with("ADX0");
        }
        (Selection { on }, UnknownRules(unknown))
    }

    /// Whether the rule is on.
    #[must_use]
    pub fn has(&self, code: Code) -> bool {
        RULES
            .iter()
            .position(|rule| rule.code == code)
            .is_some_and(|index| self.on[index])
    }

    /// Whether any rule but the unconditional ones is on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        RULES
            .iter()
            .zip(&self.on)
            .all(|(rule, on)| !on || rule.code.as_str().starts_with("ADX0"))
    }
}

/// Whether a word names this rule and no other.
fn is_whole(rule: &Rule, word: &str) -> bool {
    word.eq_ignore_ascii_case(rule.code.as_str()) || word.eq_ignore_ascii_case(rule.name)
}

/// Whether a word of a selection means this rule.
pub(crate) fn matches(rule: &Rule, word: &str) -> bool {
    let code = rule.code.as_str();
    word.eq_ignore_ascii_case("all")
        || word.eq_ignore_ascii_case(rule.name)
        || word.len() >= 3
            && word.len() <= code.len()
            && code.is_char_boundary(word.len())
            && code[..word.len()].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use crate::rule::{BLOCKING_HTTP, BLOCKING_SLEEP, RUST_SLEEP, YIELD_IN_CONTEXT};

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn prefixes_names_and_codes_select() {
        let (selection, unknown) = Selection::new(
            &words(&["adp1", "rust-blocking-sleep"]),
            &words(&["ADP102"]),
            false,
        );
        assert!(unknown.0.is_empty());
        assert!(selection.has(BLOCKING_SLEEP) && selection.has(RUST_SLEEP));
        assert!(!selection.has(BLOCKING_HTTP));
    }

    #[test]
    fn a_new_rule_runs_with_preview_or_by_its_own_name() {
        let has = |select: &[&str], preview| {
            Selection::new(&words(select), &[], preview)
                .0
                .has(YIELD_IN_CONTEXT)
        };
        assert!(!has(&[], false) && has(&[], true));
        assert!(!has(&["ADP4"], false) && has(&["ADP4"], true));
        assert!(has(&["ADP404"], false) && has(&["yield-in-context"], false));
        assert!(!Selection::default().has(YIELD_IN_CONTEXT));
    }

    #[test]
    fn what_is_no_rule_is_named_and_the_rest_holds() {
        let (selection, unknown) = Selection::new(&words(&["ADP101", "ADP999", "x"]), &[], false);
        assert_eq!(unknown.0, ["ADP999", "x"]);
        assert!(selection.has(BLOCKING_SLEEP));
    }
}
