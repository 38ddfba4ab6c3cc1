//! The pages behind `--explain` are true: what they call bad is found, what they call good is clean.

mod support;

use adieu_check::Rule;
use support::Project;

/// The files of one part of a page: fences whose first line is a language and a file name.
fn project(page: &str, part: &str) -> Project {
    let text = page
        .split(&format!("## {part}\n"))
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap_or("");
    let mut project = Project::new();
    for fence in text.split("```").skip(1).step_by(2) {
        let (head, body) = fence.split_once('\n').expect("a fence has a first line");
        let name = head
            .split_whitespace()
            .nth(1)
            .expect("a fence names its file");
        project = project.file(name, body);
    }
    project.preview()
}

#[test]
fn bad_examples_are_found_and_good_ones_are_clean() {
    let mut wrong = Vec::new();
    for rule in Rule::ALL
        .iter()
        .filter(|rule| rule.code.as_str() != "ADX002")
    {
        let codes = |project: &Project| match rule.code.as_str() {
            // These are looked for only where they are asked for.
            "ADD601" | "ADD602" => project.budget_codes(),
            _ => project.codes(),
        };
        let bad = project(rule.page, "Bad");
        if !codes(&bad).contains(&rule.code.as_str()) {
            wrong.push(format!(
                "{}: the bad example is not found, only:\n{}",
                rule.code,
                bad.text()
            ));
        }
        let good = project(rule.page, "Good");
        if !codes(&good).is_empty() {
            wrong.push(format!(
                "{}: the good example is not clean:\n{}",
                rule.code,
                good.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
