//! Compiles all mutants at once. What the compiler refuses is left out, and it is asked again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use super::plan::Plan;
use super::render::Rendered;
use super::tree::Tree;
use crate::checkout::Checkout;
use crate::step::Failure;

/// The targets with the tests, by name: another selection of packages would have every dependency built again.
const TARGETS: &[&str] = &[
    "--lib", "--test", "machine", "--test", "api", "--test", "state", "--test", "admin", "--test",
    "sockets", "--test", "it", "--test", "handoff", "--test", "reload",
];

/// A program that was built.
pub(super) struct Program {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) executable: PathBuf,
    /// The directory of its package.
    pub(super) folder: PathBuf,
    /// Whether it has tests, or is what tests start.
    pub(super) has_tests: bool,
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Diagnostic>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    code: Option<Code>,
    spans: Vec<Place>,
    children: Vec<Diagnostic>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Place {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// What a round came to.
enum Round {
    Built(Vec<Program>),
    /// More mutants are known not to compile.
    Fewer,
    /// These functions have to stay `const`.
    Const(BTreeSet<String>),
}

pub(super) fn build(
    checkout: &Checkout,
    tree: &Tree,
    plan: &mut Plan,
    target: &Path,
) -> Result<Vec<Program>, Failure> {
    loop {
        match round(checkout, tree, plan, target)? {
            Round::Built(programs) => return Ok(programs),
            Round::Fewer => println!("{} mutants do not compile so far", plan.unviable.len()),
            Round::Const(names) => {
                println!(
                    "constants need {}",
                    names.iter().cloned().collect::<Vec<_>>().join(", ")
                );
                let keep = plan.keeps_const().union(&names).cloned().collect();
                let unviable: BTreeSet<String> = plan
                    .unviable
                    .iter()
                    .map(|id| plan.mutants[*id as usize].key())
                    .collect();
                *plan = Plan::new(checkout, &tree.files, keep)?;
                plan.leave_out(&unviable);
            }
        }
    }
}

fn round(
    checkout: &Checkout,
    tree: &Tree,
    plan: &mut Plan,
    target: &Path,
) -> Result<Round, Failure> {
    let texts = plan.write(checkout, tree)?;
    let mut cargo = checkout.cargo(["test", "--no-run", "--workspace", "--all-features"]);
    cargo
        .args(TARGETS)
        .arg("--message-format=json")
        .current_dir(tree.root())
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let answer = cargo.output()?;
    let lines: Vec<Line> = String::from_utf8_lossy(&answer.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if answer.status.success() {
        return Ok(Round::Built(
            lines
                .into_iter()
                .filter_map(|line| program(line, tree.root()))
                .collect(),
        ));
    }
    let errors: Vec<&Diagnostic> = lines
        .iter()
        .filter(|line| line.reason == "compiler-message")
        .filter_map(|line| line.message.as_ref())
        .filter(|message| message.level == "error")
        .collect();
    if errors.is_empty() {
        return Err(Failure::new("cargo cannot build the copy; it has said why"));
    }
    let needed: BTreeSet<String> = errors
        .iter()
        .filter(|error| error.code.as_ref().is_some_and(|it| it.code == "E0015"))
        .flat_map(|error| names_in(&error.message))
        .filter(|name| plan.was_const(name))
        .collect();
    if !needed.is_empty() {
        return Ok(Round::Const(needed));
    }
    let mut unexplained = String::new();
    let before = plan.unviable.len();
    for error in errors {
        let mut blamed = Vec::new();
        for look in [Rendered::changed_at, Rendered::site_around] {
            for place in places(error)
                .filter(|place| place.is_primary)
                .chain(places(error))
            {
                if let Some(text) = texts.get(&place.file_name)
                    && blamed.is_empty()
                {
                    blamed = look(text, &(place.byte_start..place.byte_end));
                }
            }
        }
        if blamed.is_empty() && !error.spans.is_empty() {
            unexplained.push_str(error.rendered.as_deref().unwrap_or(&error.message));
        }
        plan.unviable.extend(blamed);
    }
    if plan.unviable.len() == before {
        print!("{unexplained}");
        return Err(Failure::new(
            "the copy does not compile, and no mutant is to blame",
        ));
    }
    Ok(Round::Fewer)
}

/// Of the message, then of its notes.
fn places(error: &Diagnostic) -> impl Iterator<Item = &Place> {
    error
        .spans
        .iter()
        .chain(error.children.iter().flat_map(|child| &child.spans))
}

/// The last segments of the paths between backticks.
fn names_in(message: &str) -> Vec<String> {
    message
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|path| path.rsplit("::").next())
        .map(|name| name.trim_end_matches("()").to_owned())
        .collect()
}

fn program(line: Line, root: &Path) -> Option<Program> {
    let folder = line.manifest_path?.parent()?.to_owned();
    (line.reason == "compiler-artifact").then_some(())?;
    Some(Program {
        package: folder
            .strip_prefix(root)
            .ok()?
            .to_string_lossy()
            .into_owned(),
        target: line.target?.name,
        executable: line.executable?,
        folder,
        has_tests: line.profile?.test,
    })
}
