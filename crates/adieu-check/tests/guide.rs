//! The guide's table of rules is the table of rules.

use std::fs;
use std::path::Path;

use adieu_check::Rule;

#[test]
fn the_guide_lists_every_rule_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    let guide = fs::read_to_string(path).expect("the guide");
    let rows: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| `AD"))
        .collect();
    let wanted: Vec<String> = Rule::ALL
        .iter()
        .map(|rule| format!("| `{}` | {} | {} |", rule.code, rule.name, rule.summary))
        .collect();
    assert_eq!(rows, wanted);
}
