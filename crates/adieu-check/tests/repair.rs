//! An edit is written only when the check of the new text agrees with it.

mod support;

use std::fs;
use std::path::PathBuf;

use adieu_check::{Applicability, Fix, Repaired, Repairs, Request, check};
use support::Project;

const SLEEPS: &str =
    "import asyncio\nimport time\nasync def f():\n    await asyncio.sleep(0)\n    time.sleep(1)\n";

/// Repairs a project with these edits in the place of the check's own.
fn repaired(project: &Project, edit: impl Fn(&Fix) -> Fix) -> Repaired {
    let request = Request {
        paths: vec![project.path()],
        ..Request::default()
    };
    let mut outcome = check(&request, &|_, _| {});
    for finding in &mut outcome.findings {
        finding.fix = finding.fix.as_ref().map(&edit);
    }
    Repairs::plan(&request, outcome, Applicability::Unsafe, &|_, _| {}).apply(&request, &|_, _| {})
}

fn text(project: &Project, name: &str) -> String {
    fs::read_to_string(project.path().join(name)).expect("a file")
}

#[test]
fn an_edit_that_mends_is_written() {
    let project = Project::python(SLEEPS);
    let done = repaired(&project, Fix::clone);
    assert_eq!(done.repaired, 1);
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    assert!(done.outcome.findings.is_empty());
    assert!(text(&project, "app.py").ends_with("    await asyncio.sleep(1)\n"));
}

#[test]
fn an_edit_that_mends_nothing_or_breaks_the_file_is_not_written() {
    for (edited, code) in [("time.sleep", "ADP101"), ("await (", "ADX001")] {
        let project = Project::python(SLEEPS).file("other.py", SLEEPS);
        let done = repaired(&project, |fix| Fix {
            text: edited.to_owned(),
            ..fix.clone()
        });
        assert_eq!(done.repaired, 0);
        assert_eq!(text(&project, "app.py"), SLEEPS);
        let said: Vec<&str> = done.refused.iter().map(|it| it.message.as_str()).collect();
        let message = format!("was not repaired: with the edit the check reports {code}");
        assert_eq!(said, [message.as_str(), message.as_str()]);
        let found: Vec<&str> = done
            .outcome
            .findings
            .iter()
            .map(|it| it.code.as_str())
            .collect();
        assert_eq!(
            found,
            ["ADP101", "ADP101"],
            "what was not repaired is reported"
        );
    }
}

#[test]
fn a_file_that_is_refused_does_not_hold_up_the_others() {
    let project = Project::python(SLEEPS).file("other.py", &format!("\n{SLEEPS}"));
    let done = repaired(&project, |fix| Fix {
        // The offsets differ by the one byte that the other file has more.
        text: if fix.start % 2 == 0 {
            "await (".to_owned()
        } else {
            fix.text.clone()
        },
        ..fix.clone()
    });
    assert_eq!((done.repaired, done.refused.len()), (1, 1));
    assert_eq!(done.outcome.findings.len(), 1);
}

#[test]
fn a_mark_at_the_start_of_a_file_is_kept() {
    let project = Project::python(&format!("\u{feff}{SLEEPS}"));
    assert_eq!(repaired(&project, Fix::clone).repaired, 1);
    assert!(text(&project, "app.py").starts_with("\u{feff}import asyncio\n"));
}

/// A finding whose path leads outside of what was asked for, however it came to be.
#[test]
fn a_path_outside_of_the_request_is_refused() {
    let (inside, outside) = (Project::python(SLEEPS), Project::python(SLEEPS));
    let check_of = |paths: Vec<PathBuf>| Request {
        paths,
        ..Request::default()
    };
    let outcome = check(&check_of(vec![outside.path()]), &|_, _| {});
    let request = check_of(vec![inside.path()]);
    let done = Repairs::plan(&request, outcome, Applicability::Unsafe, &|_, _| {})
        .apply(&request, &|_, _| {});
    assert_eq!(done.repaired, 0);
    assert_eq!(
        done.refused[0].message,
        "was not repaired: it is not below the directory that was named"
    );
    assert_eq!(text(&outside, "app.py"), SLEEPS);
}
