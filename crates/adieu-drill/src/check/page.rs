//! `docs/frameworks.md` is the hints of all checks, sorted by framework.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::ALL;

const START: &str = "<!-- hints: made by a test of adieu-drill -->\n";
const END: &str = "<!-- hints: end -->";

/// A heading, and what the label of a hint for it contains.
const FRAMEWORKS: &[(&str, &[&str])] = &[
    ("uvicorn, Starlette, FastAPI", &["uvicorn"]),
    ("gunicorn", &["gunicorn"]),
    ("hypercorn", &["hypercorn"]),
    ("Celery", &["Celery"]),
    ("Python", &["Python"]),
    ("Node", &["Node"]),
    ("Go", &["Go"]),
    ("Java", &["Java"]),
    ("axum and hyper", &["axum", "hyper / Rust"]),
    ("nginx", &["nginx"]),
    ("Shell scripts", &["shell", "start scripts"]),
    ("Docker", &["docker"]),
    ("Kubernetes", &["Kubernetes"]),
    ("systemd", &["systemd"]),
    ("A service of adieu", &["adieu"]),
    ("Any program", &["any"]),
];

fn page() -> String {
    let mut out = String::new();
    for (heading, labels) in FRAMEWORKS {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n## {heading}\n\n");
        for spec in ALL {
            for (label, hint) in spec.hints {
                if labels.iter().any(|it| label.contains(it)) {
                    let _ = writeln!(out, "- `{}`: {hint}", spec.id);
                }
            }
        }
    }
    out
}

#[test]
fn the_page_of_frameworks_has_every_hint() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/frameworks.md");
    let shown = fs::read_to_string(&path).expect("the page");
    let (before, rest) = shown.split_once(START).expect("its start");
    let (_, after) = rest.split_once(END).expect("its end");
    let wanted = format!("{before}{START}{}\n{END}{after}", page());
    if std::env::var_os("ADIEU_WRITE_PAGES").is_some() {
        fs::write(&path, &wanted).expect("the page can be written");
    }
    assert!(
        shown == wanted,
        "docs/frameworks.md is not what the hints say; `ADIEU_WRITE_PAGES=1 cargo test -p adieu-drill frameworks` writes it"
    );
}

#[test]
fn every_hint_has_a_heading() {
    let general = ["queues", "SQLite", "clients", "any proxy in front"];
    for spec in ALL {
        for (label, hint) in spec.hints {
            let headings = FRAMEWORKS.iter().flat_map(|(_, labels)| labels.iter());
            let mut known = headings.chain(&general);
            assert!(known.any(|it| label.contains(it)), "{label}: {hint}");
        }
    }
}
